"""What can go wrong with a cluster, each a sentence that says what is missing and the next move.

ClusterError
├── MissingTool        Go, root or a Debian package is not there
├── BuildFailed        a Go build ended with an error
└── ComponentDied      a component ended while the cluster came up; carries its last log lines
"""

from __future__ import annotations

from collections.abc import Sequence


class ClusterError(Exception):
    """The message is for a person."""


class MissingTool(ClusterError):
    pass


class BuildFailed(ClusterError):
    pass


class ComponentDied(ClusterError):
    def __init__(self, component: str, what: str, last_lines: Sequence[str]) -> None:
        self.component = component
        self.last_lines = tuple(last_lines)
        lines = "".join(f"\n  | {line}" for line in last_lines)
        super().__init__(f"{component} {what}{lines}")
