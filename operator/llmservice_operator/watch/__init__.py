"""Events in, keys out: the kopf shell, the relist that closes its gaps, the queue and its workers."""
