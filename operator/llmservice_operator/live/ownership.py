"""Whose is an object that has the name of one of our children?"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from llmservice_operator.api import names
from llmservice_operator.api.cache_key import CacheKey
from llmservice_operator.api.spec import LLMService

Body = Mapping[str, Any]


class Owner(StrEnum):
    US = "us"
    PREDECESSOR = (
        "predecessor"  # an LLMService of the same name that was deleted: the collector is on its way
    )
    OTHER = "other"


def of_parent(live: Body, parent: LLMService | CacheKey) -> Owner:
    """Whose ``live`` is, for what is being reconciled. A cache's objects are known by their label."""
    if isinstance(parent, CacheKey):
        labels = live["metadata"].get("labels") or {}
        ours = names.cache_labels(parent.claim)
        mine = all(labels.get(key) == ours[key] for key in (names.MANAGED_BY_LABEL, names.CACHE_LABEL))
        return Owner.US if mine else Owner.OTHER
    return of(live, parent.name, parent.uid)


def of(live: Body, name: str, uid: str) -> Owner:
    """Whose ``live`` is, for the ``LLMService`` of that name and UID.

    An object without a controller is ours if it carries our labels (children orphaned on purpose are adopted).
    """
    controller = _controller(live)
    if controller is None:
        labels = live["metadata"].get("labels") or {}
        ours = names.labels(name)
        mine = all(labels.get(key) == ours[key] for key in (names.MANAGED_BY_LABEL, names.INSTANCE_LABEL))
        return Owner.US if mine else Owner.OTHER
    if controller.get("uid") == uid:
        return Owner.US
    same_name = controller.get("kind") == names.KIND and controller.get("name") == name
    return Owner.PREDECESSOR if same_name else Owner.OTHER


def manages(live: Body, manager: str, *path: str) -> bool:
    """Does ``manager`` own a field by server-side apply? ``live`` with its ``managedFields``."""
    for entry in live["metadata"].get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            fields: Mapping[str, Any] | None = entry.get("fieldsV1") or {}
            for name in path:
                fields = fields.get(f"f:{name}") if fields is not None else None
            if fields is not None:
                return True
    return False


def described(live: Body) -> str:
    """Whose it is, for a person: ``StatefulSet "db"``."""
    controller = _controller(live)
    if controller is None:
        return "nobody that this operator knows (it lacks the operator's labels)"
    return f'{controller.get("kind")} "{controller.get("name")}"'


def has_controller(live: Body) -> bool:
    return _controller(live) is not None


def _controller(live: Body) -> Mapping[str, Any] | None:
    references = live["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)
