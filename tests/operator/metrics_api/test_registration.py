"""Whose the group is, and what is written where it is ours."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from llmservice_operator.metrics_api import registration
from llmservice_operator.metrics_api.registration import Target

TARGET = Target("llmservice-system", "metrics", "metrics")


def ours(version: str = "v1beta2") -> dict[str, Any]:
    return registration.render(version, TARGET, b"PEM", "uid-1")


def test_it_believes_the_authority_and_skips_no_check() -> None:
    spec = ours()["spec"]
    assert spec["caBundle"] == "UEVN"
    assert spec["insecureSkipTLSVerify"] is False
    assert spec["service"] == {"namespace": "llmservice-system", "name": "metrics", "port": 443}


def test_the_newer_version_is_preferred() -> None:
    assert ours("v1beta2")["spec"]["versionPriority"] > ours("v1beta1")["spec"]["versionPriority"]


def test_it_goes_with_the_cluster_role() -> None:
    (owner,) = ours()["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ClusterRole", "metrics", "uid-1")


@pytest.mark.parametrize(
    "service",
    [None, {}, {"namespace": "llmservice-system", "name": "other"}, {"namespace": "x", "name": "metrics"}],
)
def test_one_that_leads_elsewhere_or_nowhere_is_not_ours(service: dict[str, str] | None) -> None:
    assert registration.is_ours(ours(), TARGET)
    assert not registration.is_ours({"spec": {"service": service}}, TARGET)


def test_what_the_api_server_adds_or_leaves_out_is_no_difference() -> None:
    found = copy.deepcopy(ours())
    del found["spec"]["insecureSkipTLSVerify"]
    found["metadata"]["ownerReferences"].append({"uid": "somebody-elses"})
    found["metadata"]["uid"] = "x"
    assert not registration.differs(ours(), found)


@pytest.mark.parametrize("field", ["caBundle", "versionPriority", "service"])
def test_what_we_say_and_reads_otherwise_is_one(field: str) -> None:
    found = copy.deepcopy(ours())
    found["spec"][field] = "other"
    assert registration.differs(ours(), found)
    found = copy.deepcopy(ours())
    found["metadata"]["ownerReferences"][0]["uid"] = "of-the-install-before"
    assert registration.differs(ours(), found)
