"""Sizes and settings: what a model needs, and what the user may ask of the engine.

Pure functions over integers and dicts. The operator calls them with declared figures, the engine with
measured ones, so that a refusal reads the same in ``kubectl``, on a laptop and in the engine's log.
Standard library and pydantic only.
"""

__version__ = "0.1.0"
