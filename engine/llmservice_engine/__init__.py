"""The engine: paged attention, continuous batching and an OpenAI-compatible server, from scratch.

The folders in the order in which a request flows: ``api`` (HTTP) → ``codec`` (text to tokens) →
``engine.py`` (the loop) → ``core`` (scheduler and block pool, pure integers) → ``device`` (tensors) →
``models`` → ``ops`` → ``sampling`` → back through ``codec`` to ``api``.
"""
