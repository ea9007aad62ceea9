"""The failure report: small, whole, without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmservice_engine.api import report
from llmservice_engine.core.errors import InsufficientMemory, InvalidSettings
from llmservice_planner.settings import SettingsError

TOO_LARGE = InsufficientMemory(
    "the weights need more than there is",
    hint="--max-model-len 4096 fits",
    figures={"required_bytes": 9_000_000_000, "availableBytes": 4_000_000_000},
)


def test_figures_come_before_texts() -> None:
    assert list(report.failure(TOO_LARGE).items()) == [
        ("code", "InsufficientMemory"),
        ("requiredBytes", 9_000_000_000),
        ("availableBytes", 4_000_000_000),
        ("message", "the weights need more than there is"),
        ("hint", "--max-model-len 4096 fits"),
    ]


@given(message=st.text(max_size=6000), hint=st.text(max_size=6000))
def test_it_is_whole_json_of_at_most_4000_bytes_whatever_the_texts(message: str, hint: str) -> None:
    error = InsufficientMemory(message, hint=hint, figures={"required_bytes": 2**60})
    encoded = report.encode(report.failure(error))
    assert len(encoded) <= 4000
    found = json.loads(encoded)
    assert (found["code"], found["requiredBytes"]) == ("InsufficientMemory", 2**60)


def test_a_text_that_must_be_cut_keeps_most_of_its_beginning() -> None:
    found = json.loads(report.encode(report.failure(InvalidSettings("é\n" * 4000, hint="short"))))
    assert found["message"].startswith("é\né\n")
    assert found["message"].endswith("…")
    assert len(found["message"]) > 1500
    assert found["hint"] == "short"


def test_no_secret_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "correct-horse-battery")
    error = RuntimeError(
        "GET https://me:pass@hub.example/x with correct-horse-battery, Bearer abc.def, hf_abcdefghijkl"
    )
    message = str(report.failure(error)["message"])
    for secret in ("correct-horse", "pass", "abc.def", "hf_abc"):
        assert secret not in message
    assert "hub.example" in message


def test_without_a_termination_log_none_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LLMSERVICE_TERMINATION_LOG_PATH", str(tmp_path / "none"))
    report.write(TOO_LARGE)
    assert not (tmp_path / "none").exists()
    said = capsys.readouterr().err
    assert (
        said == "error: InsufficientMemory: the weights need more than there is (--max-model-len 4096 fits)\n"
    )


@pytest.mark.parametrize(
    ("error", "code"), [(SettingsError("x"), 2), (InvalidSettings("x"), 2), (TOO_LARGE, 1), (OSError("x"), 1)]
)
def test_exit_codes_tell_the_command_line_s_faults_from_others(error: Exception, code: int) -> None:
    assert report.exit_code(error) == code
