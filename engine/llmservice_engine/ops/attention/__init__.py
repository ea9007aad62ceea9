"""Paged attention: keys and values lie in blocks, each sequence has a table of its blocks.

``interface`` says what an implementation gives, ``choose`` names the one that runs, ``reference`` is the slow and
plain one that every other is tested against.
"""
