"""The store never goes backward, in whatever order news arrives."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from llmservice_operator.api import names
from llmservice_operator.live import kinds
from llmservice_operator.live.kinds import Kind
from llmservice_operator.live.store import Key, Store


def thing(kind: Kind, name: str, version: int, uid: str = "", **more: Any) -> dict[str, Any]:
    labels = names.labels(more.pop("of", "chat")) if kind.selector else {}
    metadata = {
        "name": name,
        "namespace": more.pop("namespace", "default"),
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "labels": labels,
        "managedFields": [{"manager": "somebody"}],
    }
    return {"metadata": metadata, **more}


def service(name: str, version: int = 1, claim: str = "models", uid: str = "") -> dict[str, Any]:
    spec = {"model": {"source": {"pvc": {"claimName": claim}}}}
    return thing(kinds.LLMSERVICE, name, version, uid, spec=spec)


def test_a_late_event_does_not_hide_our_own_write() -> None:
    store = Store()
    store.put(kinds.DEPLOYMENT, thing(kinds.DEPLOYMENT, "chat", 7, spec="ours"))
    assert not store.put(kinds.DEPLOYMENT, thing(kinds.DEPLOYMENT, "chat", 5, spec="before"))
    live = store.get(kinds.DEPLOYMENT, "default", "chat")
    assert live is not None
    assert live["spec"] == "ours"


def test_the_echo_of_our_own_write_is_no_news() -> None:
    store = Store()
    assert store.put(kinds.DEPLOYMENT, thing(kinds.DEPLOYMENT, "chat", 7))
    assert not store.put(kinds.DEPLOYMENT, thing(kinds.DEPLOYMENT, "chat", 7))


def test_managed_fields_are_not_kept_and_a_claim_keeps_only_its_state() -> None:
    store = Store()
    store.put(kinds.DEPLOYMENT, thing(kinds.DEPLOYMENT, "chat", 1))
    store.put(
        kinds.CLAIM,
        thing(
            kinds.CLAIM,
            "models",
            1,
            spec={"accessModes": ["ReadWriteMany"], "dataSource": {"name": "x"}},
            status={"phase": "Bound"},
        ),
    )
    deployment = store.get(kinds.DEPLOYMENT, "default", "chat")
    claim = store.get(kinds.CLAIM, "default", "models")
    assert deployment is not None
    assert claim is not None
    assert "managedFields" not in deployment["metadata"]
    assert claim["spec"] == {"accessModes": ["ReadWriteMany"]}
    assert "labels" not in claim["metadata"]


def test_a_list_brings_to_light_what_was_deleted_in_a_gap() -> None:
    store = Store()
    store.put(kinds.LLMSERVICE, service("stays", 3))
    store.put(kinds.LLMSERVICE, service("goes", 4))
    learnt = store.replace(kinds.LLMSERVICE, [service("stays", 3), service("new", 9)], "10", None)
    assert {body["metadata"]["name"] for body in learnt} == {"goes", "new"}
    assert set(store.services()) == {Key("default", "stays"), Key("default", "new")}


def test_a_list_that_was_under_way_neither_removes_the_new_nor_revives_the_deleted() -> None:
    store = Store()
    store.put(kinds.LLMSERVICE, service("deleted", 5))
    store.put(kinds.LLMSERVICE, service("created", 12))  # after the list was taken
    store.drop(kinds.LLMSERVICE, service("deleted", 11))
    store.replace(kinds.LLMSERVICE, [service("deleted", 5)], "10", None)
    assert store.services() == (Key("default", "created"),)


def test_a_list_of_one_namespace_leaves_the_others_alone() -> None:
    store = Store()
    store.put(kinds.LLMSERVICE, thing(kinds.LLMSERVICE, "here", 1, namespace="a"))
    store.put(kinds.LLMSERVICE, thing(kinds.LLMSERVICE, "there", 1, namespace="b"))
    store.replace(kinds.LLMSERVICE, [], "10", frozenset({"a"}))
    assert store.services() == (Key("b", "there"),)


def test_the_late_deletion_of_a_namesake_does_not_remove_its_successor() -> None:
    store = Store()
    store.put(kinds.DEPLOYMENT, thing(kinds.DEPLOYMENT, "chat", 5, uid="old"))
    store.put(kinds.DEPLOYMENT, thing(kinds.DEPLOYMENT, "chat", 9, uid="new"))
    assert not store.drop(kinds.DEPLOYMENT, thing(kinds.DEPLOYMENT, "chat", 8, uid="old"))
    live = store.get(kinds.DEPLOYMENT, "default", "chat")
    assert live is not None
    assert live["metadata"]["uid"] == "new"


def test_an_object_that_lost_its_label_and_got_it_back_is_seen_again() -> None:
    store = Store()
    store.put(kinds.DEPLOYMENT, thing(kinds.DEPLOYMENT, "chat", 5))
    assert store.drop(kinds.DEPLOYMENT, thing(kinds.DEPLOYMENT, "chat", 6))  # a watch reports it as deleted
    assert store.put(kinds.DEPLOYMENT, thing(kinds.DEPLOYMENT, "chat", 7))


def test_an_event_concerns_the_services_that_it_may_matter_to() -> None:
    store = Store()
    store.put(kinds.LLMSERVICE, service("chat", claim="models"))
    store.put(kinds.LLMSERVICE, service("code", claim="models"))
    store.put(kinds.LLMSERVICE, service("other", claim="elsewhere"))
    claim = thing(kinds.CLAIM, "models", 1)
    pod = thing(kinds.POD, "chat-x", 1, of="chat")
    assert set(store.concerned(kinds.CLAIM, claim)) == {Key("default", "chat"), Key("default", "code")}
    assert store.concerned(kinds.POD, pod) == (Key("default", "chat"),)


def test_a_name_longer_than_a_label_finds_its_pods() -> None:
    long = "a" * 70
    store = Store()
    store.put(kinds.LLMSERVICE, service(long))
    pod = thing(kinds.POD, "pod", 1, of=long)
    store.put(kinds.POD, pod)
    assert store.concerned(kinds.POD, pod) == (Key("default", long),)
    assert [body["metadata"]["name"] for _, body in store.of_instance("default", long)] == ["pod"]


def test_it_is_ready_once_every_kind_was_listed() -> None:
    store = Store()
    for kind in kinds.ALL:
        assert not store.ready
        store.listed(kind)
    assert store.ready


@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_any_order_of_arrival_ends_in_the_newest_state(shuffle: random.Random, length: int) -> None:
    """One name's history (created, changed, deleted, created anew, …), told out of order."""
    history: list[tuple[str, dict[str, Any]]] = []
    generation = 0
    for version in range(1, length + 1):
        deleted = shuffle.random() < 0.3
        history.append(
            ("DELETED" if deleted else "PUT", thing(kinds.SERVICE, "chat", version, uid=f"u{generation}"))
        )
        generation += deleted
    last_event, last = history[-1]
    shuffle.shuffle(history)
    store = Store()
    for event, body in history:
        if event == "DELETED":
            store.drop(kinds.SERVICE, body)
        else:
            store.put(kinds.SERVICE, body)
    live = store.get(kinds.SERVICE, "default", "chat")
    if last_event == "PUT":
        assert live is not None
        assert live["metadata"]["resourceVersion"] == last["metadata"]["resourceVersion"]
    else:
        assert live is None
