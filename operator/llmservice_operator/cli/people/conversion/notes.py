"""What a person should know of a conversion: what has no field, what the operator does itself, what stays theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from llmservice_operator.api import names

LONGEST_VALUE = 60  # characters of a value that is shown


class Fate(StrEnum):
    LOST = "no field"
    REPLACED = "replaced"
    KEPT = "stays yours"


TITLES = {
    Fate.LOST: "What has no field, and is gone unless you see to it:",
    Fate.REPLACED: "What the operator does in its own way now:",
    Fate.KEPT: "What stays yours; keep it applied:",
}


@dataclass(frozen=True, slots=True)
class Note:
    fate: Fate
    at: str  # "Deployment/chat spec.paused"
    said: str

    def plain(self) -> dict[str, str]:
        return {"fate": self.fate.value, "at": self.at, "said": self.said}


class Notes:
    def __init__(self) -> None:
        self.all: list[Note] = []

    def lost(self, at: str, said: str) -> None:
        self._add(Fate.LOST, at, said)

    def replaced(self, at: str, said: str) -> None:
        self._add(Fate.REPLACED, at, said)

    def kept(self, at: str, said: str) -> None:
        self._add(Fate.KEPT, at, said)

    def left(self, at: str, remains: Any) -> None:
        """Everything that nobody has taken, a line for each value."""
        for path, value in _leaves(remains):
            self.lost(f"{at}{path}", _short(value))

    def _add(self, fate: Fate, at: str, said: str) -> None:
        note = Note(fate, at, said)
        if note not in self.all:
            self.all.append(note)


def named(body: dict[str, Any]) -> str:
    return f"{body['kind']}/{(body.get('metadata') or {}).get('name', '?')}"


# What the API server writes into an object, and kubectl; of no meaning in a manifest.
_SERVERS_OWN = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "ownerReferences",
)
_TOOLS = (
    "kubectl.kubernetes.io/",
    "deployment.kubernetes.io/",
    "autoscaling.alpha.kubernetes.io/",
    "pv.kubernetes.io/",
    "volume.kubernetes.io/",
    "volume.beta.kubernetes.io/",
)


def cleaned(metadata: dict[str, Any]) -> dict[str, Any]:
    """Name, labels and annotations as a person wrote them."""
    kept = {key: value for key, value in metadata.items() if key not in _SERVERS_OWN and value is not None}
    annotations = {
        key: value
        for key, value in (kept.pop("annotations", None) or {}).items()
        if not str(key).startswith(_TOOLS)
    }
    return kept | ({"annotations": annotations} if annotations else {})


def own_labels(labels: dict[str, Any], at: str, notes: Notes) -> dict[str, Any]:
    """Without those that are the operator's."""
    for key in sorted(labels.keys() & names.OWNED_LABELS):
        notes.replaced(
            f"{at}[{key}]", "the operator sets this label itself; select by its value, not by yours"
        )
    return {key: str(value) for key, value in labels.items() if key not in names.OWNED_LABELS}


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, below in value.items():
            step = f"[{key}]" if "/" in str(key) or "." in str(key) else f".{key}"
            yield from _leaves(below, f"{path}{step}")
    elif isinstance(value, list):
        for number, below in enumerate(value):
            label = below.get("name") if isinstance(below, dict) else None
            yield from _leaves(below, f"{path}[{label if label is not None else number}]")
    elif value is not None:
        yield path, value


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
