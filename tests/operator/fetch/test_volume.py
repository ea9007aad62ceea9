"""Volumes that refuse, that are shared, and that cannot do what a local disk can."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from llmservice_operator.api import copies
from llmservice_operator.fetch import lock, volume

from tests.operator.fetch.conftest import BIG, NAME, Runner, model
from tests.operator.fetch.hub_server import COMMIT, Hub
from tests.operator.fetch.test_copy import Source, snapshot, wanted

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    if made.returncode:
        pytest.skip(f"no mount here: {made.stderr!r}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def mode(folder: Path, bits: int) -> Iterator[None]:
    folder.chmod(bits)
    try:
        yield
    finally:
        folder.chmod(0o755)


@needs_root
def test_a_volume_that_is_too_small_is_refused_before_the_download(
    fetch: Runner, source: Source, hub: Hub
) -> None:
    with mounted(fetch.folder, "size=1m"):
        ran = fetch.run("copy", source(), revision=COMMIT)
    assert (ran.code, ran.report["code"]) == (1, "VolumeTooSmall")
    assert ran.report["requiredBytes"] == sum(map(len, wanted().values()))
    assert 0 < ran.report["availableBytes"] <= 1 << 20
    assert "1Gi" in ran.report["hint"]
    assert not hub.served


@needs_root
def test_a_volume_that_fills_up_on_the_way_says_so(
    fetch: Runner, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volume, "available", lambda folder: None)  # a disk that does not tell
    with mounted(fetch.folder, "size=1m"):
        ran = fetch.run("copy", source(), revision=COMMIT)
    assert ran.report["code"] == "VolumeTooSmall"
    assert ran.report["requiredBytes"] > 900_000


def test_what_is_there_already_counts_for_the_space(
    fetch: Runner, source: Source, monkeypatch: pytest.MonkeyPatch, hub: Hub
) -> None:
    hub.cut = {BIG: [0.9] + [0.0] * 9}
    assert fetch.run("copy", source(), revision=COMMIT).report["code"] == "HubUnreachable"
    hub.cut = {}
    monkeypatch.setattr(volume, "available", lambda folder: 500_000)
    assert fetch.run("copy", source(), revision=COMMIT).code == 0


@needs_root
def test_a_read_only_volume_is_named_unless_the_copy_is_complete(fetch: Runner, source: Source) -> None:
    with mounted(fetch.folder, "size=8m"):
        assert fetch.run("copy", source(files=["*.json"]), revision=COMMIT).report["code"] == "NoWeights"
        assert fetch.run("copy", source(files=["*-00002-*"]), revision=COMMIT).code == 0
        subprocess.run(["mount", "-o", "remount,ro", str(fetch.folder)], check=True)
        ran = fetch.run("copy", source(), revision=COMMIT)
        assert (ran.code, ran.report["code"]) == (1, "ReadOnlyVolume")
        assert fetch.run("copy", source(files=["*-00002-*"]), revision=COMMIT).code == 0


def test_a_volume_that_may_not_be_written_names_user_path_and_remedy(fetch: Runner, source: Source) -> None:
    with mode(fetch.folder, 0o555):
        ran = fetch.finish(fetch.start("copy", source(), revision=COMMIT, confined=True))
    assert (ran.code, ran.report["code"]) == (1, "PermissionDenied")
    assert f"user {os.geteuid()}" in ran.report["message"]
    assert str(fetch.folder) in ran.report["message"]
    assert "fsGroup" in ran.report["hint"]


def test_a_file_system_without_symbolic_links_gets_files(
    fetch: Runner, source: Source, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no(*_: Any, **__: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(Path, "symlink_to", no)
    hub.repos[NAME].files["special_tokens_map.json"] = model()["tokenizer.json"]  # one content, two names
    want = wanted() | {"special_tokens_map.json": model()["tokenizer.json"]}
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    assert snapshot(fetch, source()) == want
    hub.served.clear()
    (fetch.folder / copies.folder(source(), COMMIT) / "special_tokens_map.json").unlink()
    next(fetch.folder.rglob(".complete-*")).unlink()
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    assert not hub.served


def test_a_disk_without_flock_is_as_good(fetch: Runner, source: Source) -> None:
    site = fetch.folder.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import errno, fcntl\n"
        "def no(*_): raise OSError(errno.ENOSYS, 'Function not implemented')\n"
        "fcntl.flock = fcntl.lockf = no\n"
    )
    both = [fetch.start("copy", source(), revision=COMMIT, env={"PYTHONPATH": str(site)}) for _ in range(2)]
    for process in both:
        ran = fetch.finish(process)
        assert ran.code == 0, ran.output
    assert snapshot(fetch, source()) == wanted()


def test_two_copiers_at_once_download_once(fetch: Runner, source: Source, hub: Hub) -> None:
    hub.delay = 0.02
    both = [fetch.start("copy", source(), revision=COMMIT) for _ in range(2)]
    outputs = []
    for process in both:
        ran = fetch.finish(process)
        assert ran.code == 0, ran.output
        outputs.append(ran.output)
    assert hub.served[BIG] == len(model()[BIG])
    assert "waiting for" in "".join(outputs)


def test_a_lock_of_a_dead_pod_is_taken_over(fetch: Runner, source: Source) -> None:
    (fetch.folder / lock.NAME).write_text(json.dumps({"id": "x", "host": "gone", "pid": 1, "pids": "p"}))
    start = time.monotonic()
    ran = fetch.run("copy", source(), revision=COMMIT, stale_after=0.6)
    assert ran.code == 0
    assert 0.6 < time.monotonic() - start < 5
    assert "stale" in ran.output
    assert not (fetch.folder / lock.NAME).exists()


def test_an_empty_lock_is_stale_too(fetch: Runner, source: Source) -> None:
    (fetch.folder / lock.NAME).write_text("")
    assert fetch.run("copy", source(), revision=COMMIT, stale_after=0.3).code == 0


def test_a_lock_whose_holder_lives_is_waited_for(tmp_path: Path) -> None:
    held = lock.Lock(tmp_path, stale_after=0.3, lost=lambda: None)
    assert held.acquire(_wait)
    got: list[bool] = []
    other = lock.Lock(tmp_path, stale_after=0.3, lost=lambda: None)
    waiting = threading.Thread(target=lambda: got.append(other.acquire(_wait)))
    waiting.start()
    time.sleep(1.0)  # more than three times as long as a stale one would be respected
    assert not got
    held.release()
    waiting.join(5)
    assert got == [True]
    other.release()


def test_a_holder_that_was_frozen_learns_that_it_lost(tmp_path: Path) -> None:
    lost = threading.Event()
    held = lock.Lock(tmp_path, stale_after=0.3, lost=lost.set)
    assert held.acquire(_wait)
    (tmp_path / lock.NAME).write_text(json.dumps({"id": "other", "host": "b", "pid": 1, "pids": ""}))
    assert lost.wait(3)
    held.release()
    assert (tmp_path / lock.NAME).exists()  # it is the other's


def test_many_that_find_one_stale_lock_take_turns(tmp_path: Path) -> None:
    (tmp_path / lock.NAME).write_text(json.dumps({"id": "x", "host": "gone", "pid": 1, "pids": "p"}))
    inside: list[int] = []
    most: list[int] = []

    def one(number: int) -> None:
        mine = lock.Lock(tmp_path, stale_after=0.4, lost=lambda: None)
        assert mine.acquire(_wait)
        inside.append(number)
        most.append(len(inside))
        time.sleep(0.05)
        inside.remove(number)
        mine.release()

    threads = [threading.Thread(target=one, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(most) == 6
    assert max(most) == 1


def test_a_file_cannot_be_named_to_leave_the_volume(fetch: Runner, source: Source, hub: Hub) -> None:
    hub.repos[NAME].files["../../../../evil.json"] = b"{}"
    ran = fetch.run("copy", source(), revision=COMMIT)
    assert (ran.code, ran.report["code"]) == (1, "ModelNotFound")
    assert not list(fetch.folder.parent.rglob("evil*"))


def test_the_folder_is_the_one_that_the_operator_mounts(fetch: Runner, source: Source) -> None:
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    assert (fetch.folder / copies.folder(source(), COMMIT) / "config.json").is_file()


def _wait(seconds: float) -> bool:
    time.sleep(min(seconds, 0.05))
    return True
