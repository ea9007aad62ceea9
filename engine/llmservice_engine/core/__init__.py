"""Requests, blocks and the scheduler: pure integers, no torch, no clock, no I/O."""
