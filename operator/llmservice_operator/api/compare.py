"""Does the live object already say what we would write?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llmservice_operator.api import lists, quantities

# Maps whose values are quantities, and single fields that are one.
_QUANTITY_MAPS = frozenset({"requests", "limits", "capacity"})
_QUANTITY_FIELDS = frozenset({"sizeLimit", "divisor", "storage", "averageValue"})

# Fields that the API server keeps as they were written, without defaults, and where more means something else: a
# label more selects less, a peer's selector more lets others in.
_WHOLE = frozenset({"selector", "podSelector", "ingress", "egress"})
_EMPTY_MEANS_ALL = frozenset({"podSelector", "namespaceSelector"})

# Fields that the API server drops when they are false or zero; every other false or zero is kept.
_DROPPED_WHEN_EMPTY = frozenset(
    {
        "hostIPC", "hostNetwork", "hostPID", "initialDelaySeconds", "minReadySeconds", "paused",
        "publishNotReadyAddresses", "readOnly", "stdin", "stdinOnce", "tty",
    }
)  # fmt: skip


def differs(rendered: Mapping[str, Any], live: Mapping[str, Any]) -> str | None:
    """The path of the first leaf of ``rendered`` that ``live`` does not equal, or None.

    What ``live`` has beyond ``rendered`` (defaults, status, other managers' fields) does not count, except in
    selectors and in the rules of a NetworkPolicy. Quantities
    are compared by value, lists by merge key where they have one, else item by item.
    """
    return _map(rendered, live, "", quantity=False)


def _map(rendered: Mapping[str, Any], live: Mapping[str, Any], path: str, *, quantity: bool) -> str | None:
    for key, wanted in rendered.items():
        below = f"{path}.{key}" if path else key
        if key not in live:
            if not _absent_means(key, wanted):
                return below
            continue
        found = _value(key, wanted, live[key], below, quantity=quantity or key in _QUANTITY_FIELDS)
        if found is None and key in _WHOLE:
            found = _value(key, live[key], wanted, below, quantity=False)
        if found is not None:
            return found
    return None


def _value(field: str, wanted: Any, live: Any, path: str, *, quantity: bool) -> str | None:
    if isinstance(wanted, Mapping):
        if not isinstance(live, Mapping):
            return path
        return _map(wanted, live, path, quantity=field in _QUANTITY_MAPS)
    if isinstance(wanted, list | tuple):
        return _list(field, wanted, live, path) if isinstance(live, list | tuple) else path
    if _same(wanted, live) or (quantity and quantities.equal(wanted, live)):
        return None
    return path


def _list(
    field: str, wanted: list[Any] | tuple[Any, ...], live: list[Any] | tuple[Any, ...], path: str
) -> str | None:
    by_key = lists.keyed(field, wanted)
    if by_key is None:
        return _items(field, wanted, live, path)
    live_by_key = lists.keyed(field, live) or {}
    for key, item in by_key.items():
        below = f"{path}[{key[0]}]"
        if key not in live_by_key:
            return below
        found = _value(field, item, live_by_key[key], below, quantity=False)
        if found is not None:
            return found
    return None


def _items(
    field: str, wanted: list[Any] | tuple[Any, ...], live: list[Any] | tuple[Any, ...], path: str
) -> str | None:
    if len(wanted) != len(live):
        return path
    for index, (one, other) in enumerate(zip(wanted, live, strict=True)):
        found = _value(field, one, other, f"{path}[{index}]", quantity=False)
        if found is not None:
            return found
    return None


def _same(wanted: object, live: object) -> bool:
    if isinstance(wanted, bool) or isinstance(live, bool):
        return wanted is live
    return wanted == live


def _absent_means(field: str, wanted: object) -> bool:
    """Does a live object without ``field`` already say ``wanted``?"""
    if wanted is None or wanted == "":
        return True
    if isinstance(wanted, Mapping | list | tuple):
        return len(wanted) == 0 and field not in _EMPTY_MEANS_ALL
    return field in _DROPPED_WHEN_EMPTY and not wanted
