"""Decoders, and how their weights come from a folder. ``registry`` is where a model is added."""
