"""What an engine's text says, and what it makes for all replicas."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmservice_operator.metrics_api import figures

VLLM = """
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 5.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 4.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25
"""
OLDER = VLLM.replace("kv_cache_usage_perc", "gpu_cache_usage_perc")


@pytest.mark.parametrize("text", [VLLM, OLDER], ids=["vllm", "vllm before 0.10"])
def test_vllms_own_names_become_the_three_metrics(text: str) -> None:
    assert figures.read(text) == {
        "num_requests_waiting": 5,
        "num_requests_in_flight": 8,
        "kv_cache_usage_percent": 25,
    }


def test_several_engines_in_a_pod_add_their_requests_and_average_their_caches() -> None:
    found = figures.read(VLLM + VLLM.replace('engine="0"', 'engine="1"').replace(" 0.25", " 0.75"))
    assert found == {"num_requests_waiting": 10, "num_requests_in_flight": 16, "kv_cache_usage_percent": 50}


def test_what_an_engine_does_not_tell_is_left_out() -> None:
    assert figures.read("vllm:num_requests_waiting 2\n") == {"num_requests_waiting": 2}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html>502 Bad Gateway</html>",
        "up 1\n",
        "vllm:num_requests_waiting_by_reason 1\n",
        "vllm:num_requests_waiting -1\n",
        "vllm:num_requests_waiting NaN\n",
        "vllm:num_requests_waiting +Inf\n",
        "vllm:num_requests_waiting 1e30\n",
        "vllm:num_requests_waiting many\n",
        "vllm:num_requests_waiting{\n",
        "vllm:num_requests_waiting\n",
        "vllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 80\n",
    ],
)
def test_figures_that_cannot_be_are_none_at_all(text: str) -> None:
    with pytest.raises(figures.Untrue):
        figures.read(text)


@given(st.text().map(lambda tail: f"vllm:num_requests_waiting{tail}\n"))
def test_no_text_does_more_harm_than_that(text: str) -> None:
    with contextlib.suppress(figures.Untrue):
        assert all(value >= 0 for value in figures.read(text).values())


def test_a_silent_pod_counts_as_one_like_those_that_answer() -> None:
    readings = [{"num_requests_waiting": 6.0}, {"num_requests_waiting": 3.0}]
    assert figures.total("num_requests_waiting", readings, ready=2) == 9
    assert figures.total("num_requests_waiting", readings, ready=3) == 13.5


@pytest.mark.parametrize(
    ("answered", "ready", "enough"), [(1, 2, True), (1, 3, False), (2, 4, True), (0, 1, False), (0, 0, False)]
)
def test_half_of_the_ready_pods_must_answer(answered: int, ready: int, enough: bool) -> None:
    readings = [{"num_requests_waiting": 1.0}] * answered + [{"kv_cache_usage_percent": 1.0}] * ready
    if enough:
        assert figures.total("num_requests_waiting", readings, ready) == ready
    else:
        with pytest.raises(figures.TooFewAnswers, match=f"{answered} of {ready} ready pods answer"):
            figures.total("num_requests_waiting", readings, ready)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3, "3"), (13.5, "13500m"), (1 / 3, "333m"), (1e6, "1000000"), (0.0001, "0")],
)
def test_quantities_have_thousandths_and_no_exponent(value: float, text: str) -> None:
    assert figures.quantity(value) == text
