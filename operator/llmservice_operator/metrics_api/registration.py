"""The APIServices that send ``custom.metrics.k8s.io`` to us: only where nobody else serves it.

An APIService without a server behind it blocks the deletion of every namespace, so ours must never stay behind. It
is owned by the chart's ClusterRole, with which an uninstall takes it away, and :meth:`Registration.withdraw` does
where our Deployment or namespace goes and the ClusterRole stays.

Every replica registers: the writes are the same, and a create or a patch that comes second changes nothing.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import Gauge

from llmservice_operator.api import names
from llmservice_operator.live.client import ApiError, Client
from llmservice_operator.metrics_api import wire

PATH: Final = "/apis/apiregistration.k8s.io/v1/apiservices"
PORT = 443  # of the Service
_PRIORITIES = {"v1beta2": 200, "v1beta1": 100}  # the higher one is preferred
_GROUP_PRIORITY = 100

REGISTERED = Gauge(
    "llmservice_metrics_api_registered",
    "1: custom.metrics.k8s.io is ours; 0: another provider has it, or it is not known yet",
)

Body = Mapping[str, Any]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """Our Service, and the ClusterRole that the APIServices go with."""

    namespace: str
    service: str
    cluster_role: str


def render(version: str, target: Target, bundle: bytes, owner_uid: str) -> dict[str, Any]:
    """The APIService of one version. Pure."""
    owner = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "name": target.cluster_role,
        "uid": owner_uid,
    }
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": f"{version}.{wire.GROUP}",
            "labels": {names.MANAGED_BY_LABEL: names.MANAGER},
            "ownerReferences": [owner],
        },
        "spec": {
            "group": wire.GROUP,
            "version": version,
            "groupPriorityMinimum": _GROUP_PRIORITY,
            "versionPriority": _PRIORITIES[version],
            "service": {"namespace": target.namespace, "name": target.service, "port": PORT},
            "caBundle": base64.b64encode(bundle).decode(),
            "insecureSkipTLSVerify": False,
        },
    }


def is_ours(found: Body, target: Target) -> bool:
    service = (found.get("spec") or {}).get("service") or {}
    return (service.get("namespace"), service.get("name")) == (target.namespace, target.service)


def differs(wanted: Body, found: Body) -> bool:
    """Does anything that we say read otherwise?"""
    spec = found.get("spec") or {}
    said = {key: value for key, value in wanted["spec"].items() if value}
    owners = {owner.get("uid") for owner in found["metadata"].get("ownerReferences") or ()}
    wanted_owners = {owner["uid"] for owner in wanted["metadata"]["ownerReferences"]}
    return any(spec.get(key) != value for key, value in said.items()) or not wanted_owners <= owners


class Registration:
    def __init__(self, client: Client, target: Target) -> None:
        self._client = client
        self._target = target
        self._others: tuple[str, ...] | None = None  # who has the group, as last seen

    async def ensure(self, bundle: bytes) -> None:
        """Register every version, or none where another provider has one.

        One for all: an autoscaler takes the group's preferred version, so ours beside another's would hide it.

        Raises:
            ApiError
        """
        found = await self._found()
        others = tuple(_told(body) for body in found.values() if not is_ours(body, self._target))
        self._say(others)
        if others:
            await self._delete(found)
            return
        role = await self._client.get(
            f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{self._target.cluster_role}"
        )
        if "deletionTimestamp" in role["metadata"]:
            return
        for version in wire.VERSIONS:
            wanted = render(version, self._target, bundle, role["metadata"]["uid"])
            await self._write(wanted, found.get(version))
        REGISTERED.set(1)

    async def withdraw(self) -> None:
        """Remove what is ours.

        Raises:
            ApiError
        """
        await self._delete(await self._found())
        REGISTERED.set(0)

    async def _found(self) -> dict[str, Body]:
        """The group's APIServices by version, whoever made them."""
        found: dict[str, Body] = {}
        for version in wire.VERSIONS:
            try:
                found[version] = await self._client.get(f"{PATH}/{version}.{wire.GROUP}")
            except ApiError as error:
                if error.code != 404:
                    raise
        return found

    async def _write(self, wanted: dict[str, Any], found: Body | None) -> None:
        name = wanted["metadata"]["name"]
        try:
            if found is None:
                await self._client.create(PATH, wanted)
                logger.info("registered APIService %s", name)
            elif differs(wanted, found):
                # With the version that was looked at: if it has become another provider's since, it stays as it is.
                metadata = wanted["metadata"] | {"resourceVersion": found["metadata"]["resourceVersion"]}
                await self._client.merge(f"{PATH}/{name}", wanted | {"metadata": metadata})
                logger.info("corrected APIService %s", name)
        except ApiError as error:
            if error.code != 409:
                raise
            logger.debug("APIService %s: somebody was faster", name)

    async def _delete(self, found: Mapping[str, Body]) -> None:
        for body in found.values():
            if is_ours(body, self._target):
                try:
                    await self._client.delete(
                        f"{PATH}/{body['metadata']['name']}", str(body["metadata"]["uid"])
                    )
                    logger.info("removed APIService %s", body["metadata"]["name"])
                except ApiError as error:
                    if error.code not in (404, 409):
                        raise

    def _say(self, others: tuple[str, ...]) -> None:
        if others:
            REGISTERED.set(0)
        if others and others != self._others:
            logger.warning(
                "%s is served by another provider (%s) and left to it: autoscaling by our metrics needs a rule "
                "there, see the guide on autoscaling",
                wire.GROUP,
                ", ".join(others),
            )
        elif self._others and not others:
            logger.info("the other provider of %s has gone", wire.GROUP)
        self._others = others


def _told(body: Body) -> str:
    service = (body.get("spec") or {}).get("service") or {}
    return f"{body['metadata']['name']} of {service.get('namespace')}/{service.get('name')}"
