"""``fetch resolve`` of a claim that holds a model already."""

from __future__ import annotations

import json
import os

import pytest
from llmservice_operator.api import copies

from tests.operator.fetch.conftest import BIG, CONFIG, SMALL, Runner, model

SOURCE = {"pvc": {"path": "models/tiny"}}


@pytest.fixture(autouse=True)
def staged(fetch: Runner) -> None:
    for name, content in model(1000).items():
        path = fetch.folder / "models" / "tiny" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def test_the_facts_of_a_whole_folder(fetch: Runner) -> None:
    assert fetch.run("resolve", SOURCE).code == 0
    found = copies.facts(fetch.report.read_text())
    assert found
    assert (found.revision, found.parameters, found.dtype) == ("", 2000, "bfloat16")
    assert found.weight_bytes == len(model(1000)[BIG]) + len(model(1000)[SMALL])
    assert found.config["architectures"] == CONFIG["architectures"]


def test_a_missing_folder_names_what_is_there(fetch: Runner) -> None:
    ran = fetch.run("resolve", {"pvc": {"path": "nope"}})
    assert ran.report["code"] == "ModelNotFound"
    assert "nope" in ran.report["message"]
    assert "models" in ran.report["message"]


def test_a_folder_without_config_is_no_model(fetch: Runner) -> None:
    (fetch.folder / "models/tiny/config.json").unlink()
    ran = fetch.run("resolve", SOURCE)
    assert ran.report["code"] == "ModelNotFound"
    assert "config.json" in ran.report["message"]
    ran = fetch.run("resolve", {"pvc": {"path": ""}})
    assert ran.report["code"] == "ModelNotFound"


def test_a_missing_shard_is_named(fetch: Runner) -> None:
    (fetch.folder / "models/tiny" / SMALL).unlink()
    ran = fetch.run("resolve", SOURCE)
    assert ran.report["code"] == "WeightsIncomplete"
    assert SMALL in ran.report["message"]


def test_a_cut_shard_is_named_with_both_sizes(fetch: Runner) -> None:
    path = fetch.folder / "models/tiny" / BIG
    os.truncate(path, 1500)
    ran = fetch.run("resolve", SOURCE)
    assert ran.report["code"] == "WeightsIncomplete"
    assert (ran.report["availableBytes"], ran.report["requiredBytes"]) == (1500, len(model(1000)[BIG]))
    os.truncate(path, 4)
    assert fetch.run("resolve", SOURCE).report["code"] == "WeightsIncomplete"


def test_a_folder_without_weights_says_so(fetch: Runner) -> None:
    folder = fetch.folder / "models/config-only"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    assert fetch.run("resolve", {"pvc": {"path": "models/config-only"}}).report["code"] == "NoWeights"


def test_a_damaged_config_is_named(fetch: Runner) -> None:
    (fetch.folder / "models/tiny/config.json").write_text('{"architectures": [')
    ran = fetch.run("resolve", SOURCE)
    assert ran.report["code"] == "WeightsIncomplete"
    assert "config.json" in ran.report["message"]


def test_files_that_may_not_be_read_name_the_user(fetch: Runner) -> None:
    path = fetch.folder / "models/tiny/config.json"
    path.chmod(0)
    ran = fetch.finish(fetch.start("resolve", SOURCE, confined=True))
    assert ran.report["code"] == "PermissionDenied"
    assert f"user {os.geteuid()}" in ran.report["message"]


def test_a_claim_is_never_copied(fetch: Runner) -> None:
    ran = fetch.run("copy", SOURCE)
    assert (ran.code, ran.report["code"]) == (2, "InvalidSource")
