"""Whom the API server's front proxy names."""

from __future__ import annotations

import pytest
from llmservice_operator.metrics_api.callers import Caller, FrontProxy, NoFrontProxy, bearer, with_group
from multidict import CIMultiDict, CIMultiDictProxy

DATA = {"requestheader-client-ca-file": "PEM", "requestheader-allowed-names": '["front"]'}


def headers(*given: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(given))


def shown(name: str) -> dict[str, object]:
    return {"subject": ((("organizationName", "x"),), (("commonName", name),))}


def test_user_groups_uid_and_extra_are_taken_from_the_headers_that_the_cluster_names() -> None:
    proxy = FrontProxy.parse(
        {
            "data": DATA
            | {
                "requestheader-username-headers": '["X-User", "X-Remote-User"]',
                "requestheader-uid-headers": '["X-Remote-Uid"]',
            }
        }
    )
    found = proxy.caller(
        headers(
            ("X-Remote-User", "second"),
            ("X-Remote-Group", "a"),
            ("X-Remote-Group", "b"),
            ("X-Remote-Uid", "7"),
            ("X-Remote-Extra-Example.com%2fScope", "read"),
            ("X-Remote-Extra-Example.com%2fScope", "write"),
        )
    )
    assert found == Caller(
        "second", "7", ("a", "b", "system:authenticated"), (("example.com/scope", ("read", "write")),)
    )


def test_only_an_allowed_name_is_the_front_proxy_and_an_empty_list_allows_any() -> None:
    proxy = FrontProxy.parse({"data": DATA})
    assert proxy.is_at(shown("front"))
    assert not proxy.is_at(shown("other"))
    assert not proxy.is_at({})
    assert not proxy.is_at(None)
    assert FrontProxy.parse({"data": DATA | {"requestheader-allowed-names": "[]"}}).is_at(shown("any"))


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"requestheader-client-ca-file": ""},
        DATA | {"requestheader-allowed-names": "front"},
        DATA | {"requestheader-allowed-names": '{"a": 1}'},
    ],
)
def test_a_configmap_that_cannot_be_read_lets_nobody_in(data: dict[str, str] | None) -> None:
    with pytest.raises(NoFrontProxy):
        FrontProxy.parse({"data": data})


def test_somebody_is_authenticated_and_anonymous_is_not() -> None:
    assert with_group(Caller("system:kube-aggregator")).groups == ("system:authenticated",)
    assert with_group(Caller("system:anonymous")).groups == ()
    unknown = Caller("x", groups=("system:unauthenticated",))
    assert with_group(unknown) == unknown


@pytest.mark.parametrize(
    ("given", "token"),
    [("Bearer a.b.c", "a.b.c"), ("bearer  x ", "x"), ("Basic x", ""), ("Bearer", ""), ("", "")],
)
def test_a_token_is_a_bearers(given: str, token: str) -> None:
    assert bearer(headers(("Authorization", given))) == token
