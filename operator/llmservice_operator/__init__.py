"""The operator: one ``LLMService`` object becomes a served model.

The folders in the order in which a reconcile flows: ``api`` (spec, names, conditions) → ``watch`` (events in,
keys out) → ``controller.py`` (``reconcile()``) → ``desired`` (pure: spec to objects) → ``live`` (the only code
that talks to the cluster) → ``status.py`` (pure).
"""
