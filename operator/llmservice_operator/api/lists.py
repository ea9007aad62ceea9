"""How the API server merges lists: by which key, or not at all.

The strategic-merge keys of the types that we render (``core/v1``, ``apps/v1``, ``meta/v1``), by field name. A
list that is not here is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEYS: Mapping[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "volumes": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "resourceClaims": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ownerReferences": ("uid",),
}
# Of containers, and of Services. A NetworkPolicy's have neither name: they are replaced as a whole.
_PORT_KEYS = (("containerPort", "containerPort"), ("targetPort", "port"))


def merge_key(field: str, item: object) -> tuple[Any, ...] | None:
    """What identifies ``item`` in the list ``field``; None where the list is atomic or the item has no key."""
    if not isinstance(item, Mapping):
        return None
    if field == "ports":
        for told_by, number in _PORT_KEYS:
            if told_by in item and number in item:
                return item[number], item.get("protocol", "TCP")
        return None
    keys = _KEYS.get(field)
    if keys is None or keys[0] not in item:
        return None
    return tuple(item.get(key) for key in keys)


def keyed(field: str, items: list[Any] | tuple[Any, ...]) -> dict[tuple[Any, ...], Any] | None:
    """``items`` by merge key, in order; None where the list is atomic."""
    if field not in _KEYS and field != "ports":
        return None
    found: dict[tuple[Any, ...], Any] = {}
    for item in items:
        key = merge_key(field, item)
        if key is None:
            return None
        found[key] = item
    return found
