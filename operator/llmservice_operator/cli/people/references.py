"""The objects of the same namespace that an LLMService names: Secrets, ConfigMaps, claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from llmservice_operator.api.spec import LLMService

PATHS = {
    "Secret": "/api/v1/namespaces/{}/secrets/{}",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps/{}",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims/{}",
}


@dataclass(frozen=True, slots=True)
class Reference:
    kind: str
    name: str
    where: str  # the field that names it
    keys: tuple[str, ...] = ()  # that it must have
    optional: bool = False


def of(wanted: LLMService) -> tuple[Reference, ...]:
    """Each once, the first field that names it."""
    found: dict[tuple[str, str, tuple[str, ...]], Reference] = {}
    for one in _all(wanted):
        found.setdefault((one.kind, one.name, one.keys), one)
    return tuple(found.values())


def _all(wanted: LLMService) -> Iterator[Reference]:
    model, engine = wanted.spec.model, wanted.spec.engine
    if (token := model.token_secret_ref) is not None:
        yield Reference("Secret", token.name, "spec.model.tokenSecretRef", (token.key,))
    bucket = model.source.s3
    if bucket is not None and bucket.credentials_secret_ref is not None:
        keys = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        yield Reference(
            "Secret", bucket.credentials_secret_ref.name, "spec.model.source.s3.credentialsSecretRef", keys
        )
    if model.source.pvc is not None:
        yield Reference(
            "PersistentVolumeClaim", model.source.pvc.claim_name, "spec.model.source.pvc.claimName"
        )
    elif wanted.cache is not None and wanted.cache.mode == "Existing":
        yield Reference("PersistentVolumeClaim", str(wanted.claim_name), "spec.cache.claimName")
    if engine.chat_template is not None:
        key = engine.chat_template.config_map_key_ref
        yield Reference("ConfigMap", key.name, "spec.engine.chatTemplate", (key.key,))
    for variable in engine.env:
        yield from _from_variable(variable.value_from or {}, f"spec.engine.env[{variable.name}]")
    if wanted.cache is not None:
        for variable in wanted.cache.job.env:
            yield from _from_variable(variable.value_from or {}, f"spec.cache.job.env[{variable.name}]")
    yield from _from_pod(wanted.spec.template.spec, "spec.template.spec")


def _from_pod(pod: Mapping[str, Any], at: str) -> Iterator[Reference]:
    for one in pod.get("imagePullSecrets") or ():
        yield Reference("Secret", str(one.get("name")), f"{at}.imagePullSecrets")
    for volume in pod.get("volumes") or ():
        yield from _from_volume(volume, f"{at}.volumes[{volume.get('name')}]")
    for kind in ("containers", "initContainers"):
        for container in pod.get(kind) or ():
            here = f"{at}.{kind}[{container.get('name')}]"
            for variable in container.get("env") or ():
                yield from _from_variable(
                    variable.get("valueFrom") or {}, f"{here}.env[{variable.get('name')}]"
                )
            for source in container.get("envFrom") or ():
                yield from _named(
                    source, {"secretRef": "Secret", "configMapRef": "ConfigMap"}, f"{here}.envFrom"
                )


def _from_volume(volume: Mapping[str, Any], at: str) -> Iterator[Reference]:
    if claim := (volume.get("persistentVolumeClaim") or {}).get("claimName"):
        yield Reference("PersistentVolumeClaim", str(claim), at)
    if secret := (volume.get("secret") or {}).get("secretName"):
        yield Reference("Secret", str(secret), at, optional=bool(volume["secret"].get("optional")))
    for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        yield from _named(source, {"configMap": "ConfigMap"}, at)
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield from _named(source, {"secret": "Secret"}, at)


def _from_variable(source: Mapping[str, Any], at: str) -> Iterator[Reference]:
    yield from _named(source, {"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}, at)


def _named(source: Mapping[str, Any], fields: Mapping[str, str], at: str) -> Iterator[Reference]:
    for field, kind in fields.items():
        given = source.get(field)
        if isinstance(given, Mapping) and given.get("name"):
            keys = (str(given["key"]),) if given.get("key") else ()
            yield Reference(kind, str(given["name"]), at, keys, bool(given.get("optional")))
