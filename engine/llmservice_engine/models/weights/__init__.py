"""Weights from files: the files, and the ways in which they store matrices."""
