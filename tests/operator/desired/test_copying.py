"""A cache is rendered from all its users: one claim, one job for every distinct copy."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llmservice_operator.api import copies, names, spec
from llmservice_operator.api.cache_key import CacheKey, claim_of
from llmservice_operator.api.copies import Facts
from llmservice_operator.api.seen import CacheSeen
from llmservice_operator.desired import copying, render
from llmservice_operator.status import claims

from tests.operator.desired import world
from tests.operator.desired.test_attempts import job

HUB = {"model": {"source": {"hf": {"repo": "org/Tiny-1.5B"}}}}
MODEL = Facts(revision="abc123", bytes=3_000_000_000, files=7, weight_bytes=2_900_000_000)


def body(name: str = "llama", **fields: Any) -> dict[str, Any]:
    made = world.body(name, **(HUB | fields))
    made["metadata"]["uid"] = f"uid-{name}"
    return made


def key_of(made: dict[str, Any]) -> CacheKey:
    found = claim_of(made)
    assert found is not None
    return CacheKey("team", found[0])


NOTHING = CacheSeen()


def rendered(
    *bodies: dict[str, Any], seen: CacheSeen = NOTHING, model: Facts | None = MODEL, **known: Facts
) -> copying.Rendered:
    users = [copying.User(spec.parse(one), known.get(one["metadata"]["name"], model)) for one in bodies]
    return copying.render(key_of(bodies[0]), users, bodies, seen, world.DEFAULTS, world.NOON)


def by_kind(found: copying.Rendered) -> dict[str, dict[str, Any]]:
    return {child["kind"]: child for child in found.children}


def claim(size: str = "4Gi", phase: str = "Bound", **fields: Any) -> dict[str, Any]:
    spec_ = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}} | fields
    name = key_of(body()).claim
    return {
        "metadata": {"name": name, "uid": "claim-1"},
        "spec": spec_ | ({"volumeName": "pv"} if phase == "Bound" else {}),
        "status": {"phase": phase},
    }


def test_the_claims_name_says_the_model_and_belongs_to_source_and_revision() -> None:
    name = key_of(body()).claim
    assert name.startswith("llm-cache-tiny-1-5b-")
    assert key_of(body("other")).claim == name
    assert (
        key_of(body(model={"source": {"hf": {"repo": "org/Tiny-1.5B", "files": ["*.json"]}}})).claim == name
    )
    for other in ({"repo": "org/Tiny-1.5B", "revision": "v2"}, {"repo": "fork/Tiny-1.5B"}):
        assert key_of(body(model={"source": {"hf": other}})).claim != name


def test_the_raw_objects_claim_is_the_parsed_ones() -> None:
    for fields in (
        HUB,
        HUB | {"cache": {"mode": "Existing", "claimName": "mine"}},
        {"model": {"source": {"hf": {"repo": "a/b", "revision": "v1", "endpoint": "http://mirror"}}}},
        {"model": {"source": {"s3": {"uri": "s3://bucket/models/a"}}}},
        {"model": {"source": {"pvc": {"claimName": "models"}}}},
    ):
        made = world.body(**fields)
        wanted = spec.parse(made)
        assert claim_of(made) == (wanted.claim_name, wanted.cache is not None)
    assert claim_of(world.body(**HUB, cache={"mode": "Ephemeral"})) is None


@pytest.mark.parametrize("broken", [None, [], {}, {"model": 1}, {"model": {"source": {"hf": 1}}}])
def test_of_a_broken_spec_no_claim_is_known(broken: Any) -> None:
    assert claim_of({"spec": broken}) is None


def test_the_claim_waits_for_the_models_size() -> None:
    assert rendered(body(), model=None).children == ()
    made = by_kind(rendered(body()))["PersistentVolumeClaim"]
    assert made["spec"]["resources"]["requests"]["storage"] == "4Gi", "3 GB and a fifth more, in whole Gi"
    assert made["spec"]["accessModes"] == ["ReadWriteMany"]


def test_a_given_size_needs_no_lookup_and_the_largest_counts() -> None:
    made = by_kind(rendered(body(cache={"size": "50Gi"}), body("b", cache={"size": "80Gi"}), model=None))
    assert made["PersistentVolumeClaim"]["spec"]["resources"]["requests"]["storage"] == "80Gi"


def test_a_claim_never_shrinks_and_what_cannot_change_keeps_its_value() -> None:
    live = claim("100Gi", storageClassName="slow")
    asked = body(cache={"size": "50Gi", "storageClassName": "fast", "accessMode": "ReadWriteOnce"})
    made = by_kind(rendered(asked, seen=CacheSeen(claim=live)))["PersistentVolumeClaim"]
    assert made["spec"]["resources"]["requests"]["storage"] == "100Gi"
    assert (made["spec"]["storageClassName"], made["spec"]["accessModes"]) == ("slow", ["ReadWriteMany"])
    said = claims.contradictions(spec.parse(asked), live)
    assert [reason for reason, _ in said] == ["ClaimImmutable", "ClaimImmutable", "ClaimShrinks"]
    assert "slow, fast is asked" in said[0][1]


def test_an_unbound_claim_of_a_wrong_class_is_made_anew() -> None:
    live = claim(phase="Pending", storageClassName="nope")
    found = rendered(body(cache={"storageClassName": "fast"}), seen=CacheSeen(claim=live))
    assert found.children == ()
    assert ("PersistentVolumeClaim", live["metadata"]["name"]) in found.unwanted


def test_an_unbound_claim_that_should_be_larger_is_made_anew() -> None:
    found = rendered(body(cache={"size": "9Gi"}), seen=CacheSeen(claim=claim("4Gi", phase="Pending")))
    assert [kind for kind, _ in found.unwanted] == ["PersistentVolumeClaim"]


def test_what_the_cluster_has_added_to_the_claim_is_not_written_again() -> None:
    first = by_kind(rendered(body()))["PersistentVolumeClaim"]
    live = claim("4Gi", storageClassName="the-default")
    assert by_kind(rendered(body(), seen=CacheSeen(claim=live)))["PersistentVolumeClaim"] == first


def test_the_claim_goes_with_its_last_user_only_where_all_say_so() -> None:
    deleting = {"cache": {"reclaimPolicy": "Delete"}}
    both = by_kind(rendered(body("a", **deleting), body("b", **deleting)))["PersistentVolumeClaim"]
    assert [owner["uid"] for owner in both["metadata"]["ownerReferences"]] == ["uid-a", "uid-b"]
    one = by_kind(rendered(body("a", **deleting), body("b")))["PersistentVolumeClaim"]
    assert "ownerReferences" not in one["metadata"]


def test_a_claim_of_the_user_is_not_rendered_but_copied_into() -> None:
    mine = body(cache={"mode": "Existing", "claimName": "mine"})
    live = {"metadata": {"name": "mine", "uid": "m"}, "spec": {}, "status": {"phase": "Bound"}}
    found = rendered(mine, seen=CacheSeen(claim=live))
    assert [child["kind"] for child in found.children] == ["Job"]


def test_users_of_one_revision_share_a_job_and_another_choice_of_files_has_its_own() -> None:
    part = {"model": {"source": {"hf": {"repo": "org/Tiny-1.5B", "files": ["*.json"]}}}}
    found = rendered(body("a"), body("b"), body("c", **part), seen=CacheSeen(claim=claim()))
    jobs = [child for child in found.children if child["kind"] == "Job"]
    assert len(jobs) == 2
    for made in jobs:
        assert len(made["metadata"]["ownerReferences"]) == 3
        assert names.INSTANCE_LABEL not in made["metadata"]["labels"]


def test_the_job_needs_no_rights_and_takes_its_token_as_a_file() -> None:
    token = {"source": HUB["model"]["source"], "tokenSecretRef": {"name": "hub", "key": "t"}}
    made = by_kind(rendered(body(model=token), seen=CacheSeen(claim=claim())))["Job"]
    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["automountServiceAccountToken"] is False
    assert container["image"] == "operator:1"
    assert container["args"][:2] == ["fetch", "copy"]
    assert json.loads(container["args"][3]) == {
        "hf": {"repo": "org/Tiny-1.5B", "revision": "main", "files": []}
    }
    assert container["args"][4:6] == ["--revision", "abc123"]
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == "token")
    assert volume["secret"]["items"] == [{"key": "t", "path": "token"}]
    assert {"mountPath": copies.TOKEN_FOLDER, "name": "token", "readOnly": True} in container["volumeMounts"]
    assert "secretKeyRef" not in json.dumps(made)


def test_of_two_users_each_failed_attempt_takes_the_other_ones_token() -> None:
    def token(name: str) -> dict[str, Any]:
        return {"source": HUB["model"]["source"], "tokenSecretRef": {"name": name}}

    users = (body("a", model=token("bad")), body("b", model=token("good")))
    first = by_kind(rendered(*users, seen=CacheSeen(claim=claim())))["Job"]
    base = first["metadata"]["annotations"][names.ATTEMPT].rpartition("/")[0]
    failed = CacheSeen(claim=claim(), jobs=(job(1, "Failed", ago=60, base=base),))
    second = by_kind(rendered(*users, seen=failed))["Job"]
    assert second["metadata"]["annotations"][names.ATTEMPT] == f"{base}/2"
    used = [
        volume["secret"]["secretName"]
        for made in (first, second)
        for volume in made["spec"]["template"]["spec"]["volumes"]
        if volume["name"] == "token"
    ]
    assert used == ["bad", "good"]


def test_a_copy_stays_while_an_edited_service_is_looked_up_again_or_mended() -> None:
    made = by_kind(rendered(body("a"), body("b"), seen=CacheSeen(claim=claim())))["Job"]
    seen = CacheSeen(claim=claim(), jobs=(made,))
    looked_up = rendered(body("a"), seen=seen, model=None)
    users = [copying.User(spec.parse(body("a", cache={"prefetch": False})), MODEL)]
    bodies = [body("a"), body("b")]
    broken = copying.render(key_of(body()), users, bodies, seen, world.DEFAULTS, world.NOON)
    assert looked_up.unwanted == broken.unwanted == ()
    nobody = rendered(body("a", cache={"prefetch": False}), seen=seen)
    assert nobody.unwanted == (("Job", made["metadata"]["name"]),)


def test_a_copy_on_a_claim_that_was_deleted_is_no_copy() -> None:
    before = by_kind(rendered(body(), seen=CacheSeen(claim=claim())))["Job"]
    done = before | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    user = copying.User(spec.parse(body()), MODEL)
    here = copying.turn(user, CacheSeen(claim=claim(), jobs=(done,)), world.NOON)
    assert here is not None
    assert here.complete
    anew = claim() | {"metadata": claim()["metadata"] | {"uid": "claim-2"}}
    there = copying.turn(user, CacheSeen(claim=anew, jobs=(done,)), world.NOON)
    assert there is not None
    assert not there.complete


def test_children_of_a_cache_carry_the_render_hash() -> None:
    for child in render.render_cache(rendered(body(), seen=CacheSeen(claim=claim()))).children:
        assert child["metadata"]["annotations"][names.RENDER_HASH]
