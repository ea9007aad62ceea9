"""How models mark their reasoning: ``<think>`` and ``</think>``, which the prompt may have opened already."""
