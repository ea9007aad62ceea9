"""kopf is told to do nothing but watch."""

from __future__ import annotations

from llmservice_operator.live import kinds
from llmservice_operator.watch import shell


def test_kopf_neither_writes_nor_scans_and_sees_only_our_children() -> None:
    settings = shell.settings(kinds.ALL)
    assert settings.scanning.disabled
    assert settings.peering.standalone
    assert not settings.posting.enabled
    selected = {selector.any_name for selector in settings.watching.label_selectors}
    assert selected == {kind.plural for kind in kinds.ALL if kind.selector}
    assert kinds.CLAIM.plural not in selected


def test_a_kind_that_is_not_in_use_is_not_watched() -> None:
    watching = shell.settings(kinds.REQUIRED).watching.label_selectors
    assert {selector.any_name for selector in watching}.isdisjoint(kind.plural for kind in kinds.OPTIONAL)


def test_a_watch_counts_as_dead_only_after_it_missed_two_renewals() -> None:
    assert shell.SILENCE >= 2 * shell.WATCH_SECONDS
