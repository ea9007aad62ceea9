"""The operations of a decoder, one module each: a torch reference, and one place that chooses what runs.

A faster implementation for some device is added beside the reference and named in its module's ``choose``.
"""
