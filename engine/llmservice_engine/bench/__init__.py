"""Drives any OpenAI-compatible server with four fixed loads, over HTTP as its clients do. Imports nothing of ours."""
