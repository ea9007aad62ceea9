"""``fetch copy`` of a hub's repository: whole or nothing, and never twice."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from llmservice_operator.api import copies

from tests.operator.fetch.conftest import BIG, NAME, SMALL, Runner, model
from tests.operator.fetch.hub_server import COMMIT, Hub, Request

Source = Callable[..., dict[str, Any]]
MARKER = "hf_MARKERsecret0123456789"


def snapshot(fetch: Runner, source: dict[str, Any]) -> dict[str, bytes]:
    folder = fetch.folder / copies.folder(source, COMMIT)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def wanted() -> dict[str, bytes]:
    return {name: text for name, text in model().items() if name.endswith((".safetensors", ".json"))}


def test_a_copy_is_a_hub_cache_that_another_user_can_read(fetch: Runner, source: Source) -> None:
    from huggingface_hub import scan_cache_dir, snapshot_download

    ran = fetch.finish(fetch.start("copy", source(), revision=COMMIT))
    assert ran.code == 0, ran.output
    assert ran.report["bytes"] == sum(map(len, wanted().values()))
    assert snapshot(fetch, source()) == wanted()
    cache = fetch.folder / "hub"
    found = snapshot_download(NAME, cache_dir=cache, local_files_only=True)
    assert found == str(fetch.folder / copies.folder(source(), COMMIT))
    assert not scan_cache_dir(cache).warnings
    for path in (fetch.folder / "hub").rglob("*"):
        assert path.stat().st_mode & 0o004
        assert not path.is_dir() or path.stat().st_mode & 0o001
    assert not [
        path for path in fetch.folder.rglob("*") if path.name.endswith((".incomplete", ".lock", ".new"))
    ]


def test_a_complete_copy_asks_nobody(fetch: Runner, source: Source, hub: Hub) -> None:
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    before = len(hub.requests)
    ran = fetch.run("copy", source(), revision=COMMIT)
    assert (ran.code, len(hub.requests)) == (0, before)
    # Not even a name is looked up: the process may not open a socket at all.
    site = fetch.folder.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        "import socket\ndef no(*_, **__): raise SystemExit(77)\nsocket.socket.connect = socket.getaddrinfo = no\n"
    )
    gone = source(endpoint="http://nowhere.invalid")
    env = {"PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"}
    assert fetch.finish(fetch.start("copy", gone, revision=COMMIT, env=env)).code == 0


@pytest.mark.parametrize("damage", ["gone", "cut", "marker"])
def test_a_damaged_copy_is_repaired_and_the_rest_kept(
    fetch: Runner, source: Source, hub: Hub, damage: str
) -> None:
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    folder = fetch.folder / copies.folder(source(), COMMIT)
    hub.served.clear()
    if damage == "gone":
        (folder / SMALL).resolve().unlink()
    elif damage == "cut":
        os.truncate((folder / SMALL).resolve(), 100)
    else:
        next(fetch.folder.rglob(".complete-*")).write_text('{"revision": ')
        content = (folder / SMALL).read_bytes()
        (folder / SMALL).resolve().write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    assert snapshot(fetch, source()) == wanted()
    assert set(hub.served) == {SMALL}


def test_a_copy_that_vllm_made_is_checked_and_adopted(fetch: Runner, source: Source, hub: Hub) -> None:
    from huggingface_hub import hf_hub_download

    for name in wanted():
        hf_hub_download(NAME, name, cache_dir=fetch.folder / "hub", endpoint=hub.url)
    hub.served.clear()
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    assert not hub.served


def test_connections_that_are_cut_go_on_where_they_stopped(fetch: Runner, source: Source, hub: Hub) -> None:
    hub.cut = {BIG: [0.4, 0.3], "tokenizer.json": [0.5]}
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    assert snapshot(fetch, source()) == wanted()
    assert hub.served[BIG] <= len(model()[BIG]) * 1.02


def test_a_server_without_ranges_sends_all_again(fetch: Runner, source: Source, hub: Hub) -> None:
    hub.cut, hub.ranges = {BIG: [0.4]}, False
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    assert snapshot(fetch, source()) == wanted()


def test_a_copier_killed_at_40_percent_goes_on(fetch: Runner, source: Source, hub: Hub) -> None:
    hub.delay = 0.03
    process = fetch.start("copy", source(), revision=COMMIT)
    _until(lambda: hub.served[BIG] > 0.4 * len(model()[BIG]))
    process.kill()
    process.communicate()
    assert not list(fetch.folder.rglob(".complete-*"))
    assert not (fetch.folder / copies.folder(source(), COMMIT) / BIG).exists()
    time.sleep(0.1)
    hub.delay, sent = 0.0, hub.served[BIG]
    ran = fetch.run("copy", source(), revision=COMMIT)  # at once: the dead copier's lock does not block
    assert ran.code == 0, ran.output
    assert snapshot(fetch, source()) == wanted()
    assert hub.served[BIG] - sent < 0.7 * len(model()[BIG])


def test_sigterm_ends_within_two_seconds_and_keeps_what_is_there(
    fetch: Runner, source: Source, hub: Hub
) -> None:
    hub.delay = 0.1
    process = fetch.start("copy", source(), revision=COMMIT)
    _until(lambda: hub.served[BIG] > 0.3 * len(model()[BIG]))
    start = time.monotonic()
    process.send_signal(signal.SIGTERM)
    ran = fetch.finish(process)
    assert time.monotonic() - start < 2
    assert (ran.code, ran.report["code"]) == (1, "Interrupted")
    assert next(fetch.folder.rglob("*.incomplete")).stat().st_size > 0
    assert not list(fetch.folder.glob(".*.lock"))


def test_wrong_content_is_fetched_once_more_then_refused(fetch: Runner, source: Source, hub: Hub) -> None:
    hub.wrong = {BIG: 1, "tokenizer.json": 1}
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    assert snapshot(fetch, source()) == wanted()


def test_content_that_stays_wrong_names_the_file(fetch: Runner, source: Source, hub: Hub) -> None:
    hub.wrong = {SMALL: 99}
    ran = fetch.run("copy", source(), revision=COMMIT)
    assert ran.report["code"] == "ChecksumMismatch"
    assert SMALL in ran.report["message"]
    assert not list(fetch.folder.rglob(".complete-*"))
    assert SMALL not in snapshot(fetch, source())


def test_large_files_come_from_another_host_that_never_sees_the_token(
    fetch: Runner, source: Source, hub: Hub
) -> None:
    (fetch.secrets / "token").write_text(MARKER)
    hub.tokens, hub.cdn = {MARKER}, Hub()
    hub.cdn.repos = hub.repos  # it knows no token, and refuses any
    hub.cdn.cut = {BIG: [0.4]}
    try:
        ran = fetch.run("copy", source(), revision=COMMIT)
    finally:
        hub.cdn.close()
    assert ran.code == 0, ran.output
    assert snapshot(fetch, source()) == wanted()
    assert set(hub.cdn.served) == {BIG, SMALL}
    assert hub.cdn.served[BIG] < 1.05 * len(model()[BIG])
    assert "SIGNEDMARKER" not in ran.output


def test_a_very_large_file_is_asked_for_in_parts(
    fetch: Runner, source: Source, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llmservice_operator.fetch import hub as module

    monkeypatch.setattr(module, "WINDOW", 300_000)
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    assert snapshot(fetch, source()) == wanted()
    assert sum(path.endswith(BIG) for _, path in hub.requests) == 7


def test_a_server_that_falls_silent_is_asked_again(
    fetch: Runner, source: Source, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DOWNLOAD_TIMEOUT", 1)
    silences = [1.3]

    def silent(request: Request) -> None:
        if BIG in request.path and silences:
            time.sleep(silences.pop())

    hub.fault = silent
    ran = fetch.run("copy", source(), revision=COMMIT)
    assert ran.code == 0
    assert "Timeout" in ran.output


def test_other_patterns_do_not_pass_for_a_whole_copy(fetch: Runner, source: Source, hub: Hub) -> None:
    assert fetch.run("copy", source(files=["*-00002-*"]), revision=COMMIT).report["files"] == 1
    assert fetch.run("copy", source(), revision=COMMIT).report["files"] == len(wanted())
    before = len(hub.requests)
    assert fetch.run("copy", source(files=["*-00002-*"]), revision=COMMIT).report["files"] == 1
    assert len(hub.requests) == before


def test_a_new_revision_fetches_only_what_changed(fetch: Runner, source: Source, hub: Hub) -> None:
    assert fetch.run("copy", source(), revision=COMMIT).code == 0
    hub.served.clear()
    hub.repos[NAME].commit = "f00d" + "0" * 36
    hub.repos[NAME].files["tokenizer.json"] = b"{}"
    assert fetch.run("copy", source(), revision=hub.repos[NAME].commit).code == 0
    assert set(hub.served) == {"tokenizer.json"}
    assert snapshot(fetch, source()) == wanted()
    refs = fetch.folder / "hub" / "models--org--tiny" / "refs"
    assert (refs / "main").read_text() == hub.repos[NAME].commit


def test_without_a_revision_it_is_looked_up(fetch: Runner, source: Source) -> None:
    assert fetch.run("copy", source()).report["revision"] == COMMIT


def test_progress_is_served_while_copying(fetch: Runner, source: Source, hub: Hub) -> None:
    import httpx

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    hub.delay = 0.03
    worker = threading.Thread(target=fetch.run, args=("copy", source()), kwargs={"progress_port": port})
    worker.start()
    _until(lambda: hub.served[BIG] > 0.3 * len(model()[BIG]))
    told = httpx.get(f"http://127.0.0.1:{port}/progress").json()
    worker.join()
    assert told["bytesTotal"] == sum(map(len, wanted().values()))
    assert 0.2 < told["bytesDone"] / told["bytesTotal"] < 1


def test_a_taken_progress_port_does_not_stop_the_copy(fetch: Runner, source: Source, hub: Hub) -> None:
    port = int(hub.url.rpartition(":")[2])
    assert fetch.run("copy", source(), revision=COMMIT, progress_port=port).code == 0


def test_no_secret_is_told_by_a_failing_process(fetch: Runner, source: Source, hub: Hub) -> None:
    (fetch.secrets / "token").write_text(MARKER)
    hub.tokens = {MARKER}

    def echo(request: Request) -> None:  # a server that repeats what it was sent
        if "/resolve/" in request.path:
            request.refuse(403, message=f"{request.headers.get('Authorization')} {MARKER}")

    hub.fault = echo
    ran = fetch.finish(fetch.start("copy", source(), revision=COMMIT))
    assert (ran.code, ran.report["code"]) == (1, "AccessDenied")
    assert MARKER not in ran.output + fetch.report.read_text()


def test_a_fault_of_ours_is_reported_without_the_secret(
    fetch: Runner, source: Source, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llmservice_operator.fetch import facts

    (fetch.secrets / "token").write_text(MARKER)
    hub.tokens = {MARKER}

    def broken(*_: object) -> None:
        raise RuntimeError(f"Authorization: Bearer {MARKER}")

    monkeypatch.setattr(facts, "check_weights", broken)
    ran = fetch.run("copy", source(), revision=COMMIT)
    assert ran.report["code"] == "InternalError"
    assert MARKER not in ran.output + fetch.report.read_text()


def test_the_command_line_copies_and_refuses_an_unknown_action(fetch: Runner, source: Source) -> None:
    both = [fetch.command_line("copy", source(), capacity=10_000_000), fetch.command_line("delete", source())]
    ran = fetch.finish(both[0])
    assert ran.code == 0, ran.output
    assert snapshot(fetch, source()) == wanted()
    output, _ = both[1].communicate(timeout=30)
    assert both[1].returncode == 2, output


def test_the_operator_runs_without_the_extra_and_the_jobs_without_the_operator() -> None:
    blocked = "import sys; sys.modules |= dict.fromkeys(('huggingface_hub', 'boto3', 'botocore', 'httpx')); "
    subprocess.run([sys.executable, "-c", blocked + "import llmservice_operator.cli"], check=True, timeout=60)
    blocked = "import sys; sys.modules |= dict.fromkeys(('kopf', 'kubernetes_asyncio', 'aiohttp', 'torch')); "
    names = ", ".join(f"llmservice_operator.fetch.{name}" for name in ("command", "hub", "bucket"))
    subprocess.run([sys.executable, "-c", f"{blocked}import {names}"], check=True, timeout=60)


def test_a_branch_is_looked_up_and_lands_under_its_commit(fetch: Runner, source: Source) -> None:
    assert fetch.run("copy", source(), revision="main").report["revision"] == COMMIT
    assert snapshot(fetch, source()) == wanted()


def _until(happens: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.01)
