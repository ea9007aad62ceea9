"""The image of the container that holds a pod's namespaces open."""

from __future__ import annotations

from e2e.cluster import build, node
from e2e.images import oci


def ensure() -> oci.Image:
    binary = build.ensure(("pause",))["pause"] / "pause"
    return oci.ensure(node.PAUSE_IMAGE, oci.Content({"pause": binary.read_bytes()}, entrypoint=("/pause",)))
