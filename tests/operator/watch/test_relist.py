"""The kinds in use are listed, and no other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from llmservice_operator.live import kinds
from llmservice_operator.live.client import ApiError
from llmservice_operator.live.store import Store
from llmservice_operator.watch.relist import Relist


class Lists:
    """A client that lists nothing of a kind that is served, and is refused the others."""

    def __init__(self, served: tuple[kinds.Kind, ...]) -> None:
        self._served = {kind.path() for kind in served}
        self.asked: list[str] = []

    async def pages(
        self, path: str, selector: str, pause: float
    ) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
        self.asked.append(path)
        if path not in self._served:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        yield [], "1"


async def test_a_cluster_without_the_optional_kinds_is_ready_without_them() -> None:
    lists, store = Lists(kinds.REQUIRED), Store(kinds.REQUIRED)
    await Relist(lists, store, (), lambda *_: None).first()  # type: ignore[arg-type]
    assert store.ready
    assert sorted(lists.asked) == sorted(kind.path() for kind in kinds.REQUIRED)


async def test_an_optional_kind_in_use_must_be_listed_before_the_store_is_ready() -> None:
    in_use = (*kinds.REQUIRED, kinds.MONITOR)
    lists, store = Lists(in_use), Store(in_use)
    for kind in kinds.REQUIRED:
        store.listed(kind)
    assert not store.ready
    await Relist(lists, store, (), lambda *_: None).first()  # type: ignore[arg-type]
    assert store.ready
    assert store.served == {kind.kind for kind in in_use}


def test_of_a_kind_that_is_not_in_use_nothing_is_known() -> None:
    assert Store(kinds.REQUIRED).get(kinds.MONITOR, "team", "chat") is None
