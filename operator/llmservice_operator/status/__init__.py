"""What the object's status should say: ``judge`` for a spec that is served, ``invalid`` for one that cannot be."""

from llmservice_operator.status.judge import invalid, judge

__all__ = ["invalid", "judge"]
