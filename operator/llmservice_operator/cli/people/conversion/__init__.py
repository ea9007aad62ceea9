"""A hand-written Deployment around a vLLM server, and what stands beside it, as one LLMService. Pure.

Each part *takes* what it has understood out of its own copy of the manifests; what is left at the end has no field and
is listed. So nothing is dropped in silence, whatever a manifest holds.
"""
