"""HTTP in, HTTP out: an OpenAI-compatible server in front of the engine's loop.

A request's way: ``app`` (routes, middleware) → ``handlers`` → ``schema`` (the body, typed) → ``admission`` (prompts
and sampling, or a 4xx) → ``service`` (to the engine and back) → ``job`` (tokens to text) → ``answers`` (JSON, SSE).
"""
