"""``llmservice-operator fetch``: what the CPU-only jobs in the user's namespace run.

``resolve`` learns what a model is (:mod:`.facts`), ``copy`` brings it into a volume (:mod:`.copier`). An *origin*
(:mod:`.hub`, :mod:`.bucket`) lists files and streams them; a *layout* says where they lie in the volume; a *transfer*
makes one file whole. Needs the extra ``fetch``; the operator itself never imports this package.
"""
