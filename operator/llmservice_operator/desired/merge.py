"""Strategic merge: ``spec.template`` into the rendered pod template, as ``kubectl patch`` does it.

Maps merge, lists with a merge key merge by it (what the patch adds goes last), other lists are replaced, null
removes. As Kubernetes retains keys: a volume or an environment variable of the same name is replaced as a whole,
for a mixture of two sources is never valid; so is a probe that names another way of probing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmservice_operator.api import lists

_REPLACED_ITEMS = frozenset({"volumes", "env"})
_PROBES = frozenset({"startupProbe", "livenessProbe", "readinessProbe"})
_PROBE_HANDLERS = ("httpGet", "exec", "tcpSocket", "grpc")


def merged(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """``base`` with ``patch`` merged in; neither is changed."""
    result = dict(base)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            before = result.get(key)
            result[key] = merged(_base_for(key, before, value), value)
        elif isinstance(value, list | tuple):
            result[key] = _list(key, result.get(key) or [], value)
        else:
            result[key] = value
    return result


def _base_for(key: str, before: Any, patch: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(before, Mapping):
        return {}
    if key in _PROBES and any(handler in patch for handler in _PROBE_HANDLERS):
        return {field: value for field, value in before.items() if field not in _PROBE_HANDLERS}
    return before


def _list(field: str, base: list[Any], patch: list[Any] | tuple[Any, ...]) -> list[Any]:
    old, new = lists.keyed(field, base), lists.keyed(field, patch)
    if old is None or new is None:
        return list(patch)
    for key, item in new.items():
        replaced = field in _REPLACED_ITEMS or key not in old
        old[key] = merged({}, item) if replaced else merged(old[key], item)
    return list(old.values())
