"""One answer for all who ask within an interval."""

from __future__ import annotations

import asyncio

import pytest
from llmservice_operator.metrics_api.recent import Recent


async def test_an_error_is_everybodys_who_waits_and_the_next_asks_again() -> None:
    recent: Recent[str, int] = Recent(10, 5)
    asked = 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.01)
        raise OSError("no")

    found = await asyncio.gather(*(recent.get("a", ask) for _ in range(5)), return_exceptions=True)
    assert [type(one) for one in found] == [OSError] * 5
    assert asked == 1
    with pytest.raises(OSError, match="no"):
        await recent.get("a", ask)
    assert asked == 2


async def test_one_that_goes_away_takes_nothing_from_the_others() -> None:
    recent: Recent[str, int] = Recent(10, 5)

    async def ask() -> int:
        await asyncio.sleep(0.05)
        return 1

    first = asyncio.create_task(recent.get("a", ask))
    second = asyncio.create_task(recent.get("a", ask))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 1


async def test_no_more_than_so_many_are_kept_and_old_ones_go_first() -> None:
    now = 0.0
    recent: Recent[int, int] = Recent(10, 3, lambda: now)
    asked: list[int] = []

    async def look(key: int) -> int:
        async def ask() -> int:
            asked.append(key)
            return key

        return await recent.get(key, ask)

    for key in (1, 2, 3, 4):
        await look(key)
    assert len(recent) == 3
    await look(4)
    await look(1)
    assert asked == [1, 2, 3, 4, 1]
    now = 11.0
    await look(9)
    assert len(recent) == 1
