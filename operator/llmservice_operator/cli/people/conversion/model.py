"""Where the model comes from and where its copy lies."""

from __future__ import annotations

import re
from typing import Any

from llmservice_operator.cli.people.conversion.notes import named
from llmservice_operator.cli.people.conversion.workload import Body, NotConvertible, Workload

TOKENS = (
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "HUGGINGFACE_TOKEN",
    "HUGGINGFACE_HUB_TOKEN",
    "HUGGINGFACEHUB_API_TOKEN",
)
_HUB_FOLDERS = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_CACHE")
_HOME = "/root/.cache/huggingface"
_REPOSITORY = re.compile(r"^[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?$")
_AT_START = ("tokenizer", "speculative_model", "speculative_config", "lora_modules", "hf_config_path")
_BUCKET_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "S3_ENDPOINT_URL")


def model(work: Workload) -> Body:
    """``spec.model``.

    Raises:
        NotConvertible: no model is named, or it is where no source reaches.
    """
    name = work.flags.take("model")
    if not name:
        raise NotConvertible(f"{work.at} names no model: --model is not among its arguments")
    made: Body = {"source": _source(work, name)}
    if "hf" in made["source"]:
        token = _token(work)
        if token is not None:
            made["tokenSecretRef"] = token
    served = work.flags.take_all("served_model_name")
    if served:
        made["servedNames"] = list(dict.fromkeys(served))
    elif "hf" not in made["source"]:
        work.notes.lost(
            f"{work.engine_at}.args",
            f"clients ask for {name} now, and by the object's name then (spec.model.servedNames)",
        )
    return made


def _source(work: Workload, name: str) -> Body:
    if name.startswith("/"):
        return {"pvc": _on_claim(work, name)}
    if name.startswith("s3://"):
        return {"s3": _in_bucket(work, name)}
    if "$(" in name:
        raise NotConvertible(
            f"{work.at}: --model is {name}, whose value is not in the manifest; write the name there"
        )
    if not _REPOSITORY.match(name):
        raise NotConvertible(
            f"{work.at}: --model {name} is no hub repository, absolute path or s3:// address"
        )
    hub: Body = {"repo": name}
    revision = work.flags.take("revision")
    if revision:
        hub["revision"] = revision
    endpoint = work.values.get("HF_ENDPOINT")
    if endpoint:
        hub["endpoint"] = endpoint.rstrip("/")
        _drop_env(work, "HF_ENDPOINT")
    return {"hf": hub}


def _on_claim(work: Workload, path: str) -> Body:
    mount = work.mount_over(path)
    claim = work.volume(str(mount["name"])).get("persistentVolumeClaim") if mount is not None else None
    if mount is None or claim is None:
        there = "nothing is mounted there" if mount is None else f"{_kind(work, mount)} is mounted there"
        raise NotConvertible(
            f"{work.at}: --model {path}, and {there}; a model comes from the hub, a bucket or a "
            "PersistentVolumeClaim: bring it to one of them"
        )
    inside = path[len(str(mount["mountPath"]).rstrip("/")) :].strip("/")
    folder = "/".join(part for part in (str(mount.get("subPath") or "").strip("/"), inside) if part)
    if work.flags.has("tokenizer") and (work.flags.take("tokenizer") or "") != path:
        work.notes.lost(
            f"{work.engine_at}.args", "--tokenizer: the tokenizer is read from the model's folder"
        )
    work.unmount(mount)
    work.notes.kept(f"PersistentVolumeClaim/{claim['claimName']}", "holds the model; it is mounted read-only")
    return {"claimName": claim["claimName"], **({"path": folder} if folder else {})}


def _in_bucket(work: Workload, uri: str) -> Body:
    made: Body = {"uri": uri.rstrip("/")}
    for name in _ENDPOINTS:
        if name in work.values and "endpoint" not in made:
            made["endpoint"] = work.values[name].rstrip("/")
            _drop_env(work, name)
    references = {
        reference.get("name"): reference.get("key")
        for one in work.engine.get("env") or ()
        if one.get("name") in _BUCKET_KEYS and (reference := _secret(one)) is not None
    }
    if len(references) == 1:
        (secret,) = references
        keys = {one["name"]: (_secret(one) or {}).get("key") for one in work.engine["env"] if _secret(one)}
        made["credentialsSecretRef"] = {"name": secret}
        if any(keys.get(name, name) != name for name in _BUCKET_KEYS):
            work.notes.lost(
                f"{work.engine_at}.env",
                f"Secret/{secret}: its keys must be named {' and '.join(_BUCKET_KEYS)}",
            )
        for name in _BUCKET_KEYS:
            _drop_env(work, name)
    return made


def _token(work: Workload) -> Body | None:
    """The hub's token: from a Secret, never a value."""
    found: Body | None = None
    for one in [one for one in work.engine.get("env") or () if one.get("name") in TOKENS]:
        at = f"{work.engine_at}.env[{one['name']}]"
        reference = _secret(one)
        if reference is not None:
            found = found or {"name": reference["name"], "key": reference.get("key", "token")}
            if reference.get("optional"):
                work.notes.lost(f"{at}.optional", "the Secret must exist")
        elif one.get("value") is not None:
            work.notes.lost(
                at,
                "a token in the open: kubectl create secret generic hub-token --from-literal=token=…, then "
                "spec.model.tokenSecretRef: {name: hub-token}",
            )
        else:
            continue
        if work.flags.has(*_AT_START) and reference is not None:
            work.notes.replaced(
                at, "stays in engine.env too: a flag names something that each pod fetches itself"
            )
        else:
            _drop_env(work, str(one["name"]))
    for source in work.engine.get("envFrom") or ():
        if found is None and "secretRef" in source:
            secret = source["secretRef"].get("name")
            work.notes.lost(
                f"{work.engine_at}.envFrom",
                f"if Secret/{secret} holds the hub's token, name it in spec.model.tokenSecretRef",
            )
    return found


# --- the cache -----------------------------------------------------------------------------------------------
def cache(work: Workload, *, managed: bool) -> Body | None:
    """``spec.cache`` from what is mounted at the hub's cache. ``managed``: a claim that the operator makes, of the
    same size and class, instead of the claim that is there."""
    folder = work.flags.take("download_dir") or _hub_folder(work)
    for name in ("HF_HOME", *_HUB_FOLDERS):
        if any(one.get("name") == name for one in work.engine.get("env") or ()):
            work.notes.replaced(
                f"{work.engine_at}.env[{name}]", "the operator mounts the copy and says where it is"
            )
            _drop_env(work, name)
    mount = work.mount_over(folder) or _usual_mount(work)
    if mount is None:
        work.notes.replaced(
            f"{work.pod_at}.volumes",
            "no cache was mounted, each pod fetched the model: now a job copies it once to a "
            "ReadWriteMany claim (spec.cache: {mode: None} is as before)",
        )
        return None
    volume = work.volume(str(mount["name"]))
    at = f"{work.pod_at}.volumes[{mount['name']}]"
    work.unmount(mount)
    if "persistentVolumeClaim" in volume:
        name = str(volume["persistentVolumeClaim"]["claimName"])
        claim = _claim_body(work, name)
        if managed:
            return _managed(work, at, name, claim)
        _say_where(work, at, folder, mount)
        return _existing(work, name, claim)
    if "ephemeral" in volume:
        return {"mode": "Ephemeral", **_size_and_class(volume["ephemeral"]["volumeClaimTemplate"]["spec"])}
    if "emptyDir" in volume:
        work.notes.replaced(
            at, "each pod fetches the model to its node's disk, as before; a claim would be filled once"
        )
        return {"mode": "None"}
    work.notes.lost(
        at,
        f"a cache on {_kind_of(volume)}: now a claim that the operator makes holds the copy (spec.cache says which)",
    )
    return None


def _hub_folder(work: Workload) -> str:
    for name in _HUB_FOLDERS:
        if name in work.values:
            return work.values[name]
    home = work.values.get("HF_HOME", _HOME)
    return f"{home.rstrip('/')}/hub"


def _usual_mount(work: Workload) -> Body | None:
    """A cache below another user's home."""
    for mount in work.engine.get("volumeMounts") or ():
        if re.search(r"/\.cache(/huggingface(/hub)?)?/?$", str(mount.get("mountPath", ""))):
            found: Body = mount
            return found
    return None


def _say_where(work: Workload, at: str, folder: str, mount: Body) -> None:
    """The operator has the hub's folder at ``hub`` of the claim."""
    path = str(mount["mountPath"]).rstrip("/")
    if folder == path or folder.startswith(f"{path}/"):
        inside = folder[len(path) :].strip("/")
    else:  # the usual folder of another user
        inside = {"huggingface": "hub", "hub": "", ".cache": "huggingface/hub"}[path.rpartition("/")[2]]
    there = "/".join(part for part in (str(mount.get("subPath") or "").strip("/"), inside) if part)
    if there != "hub":
        work.notes.replaced(
            at,
            f"copies were in {there or 'the root'} of the claim, now they are in hub: the model is copied once more",
        )


def _existing(work: Workload, name: str, claim: Body | None) -> Body:
    work.notes.kept(f"PersistentVolumeClaim/{name}", "holds the copy of the model, as HF_HOME")
    made: Body = {"mode": "Existing", "claimName": name}
    if claim is not None and "ReadWriteMany" not in (claim.get("spec", {}).get("accessModes") or ()):
        job = {key: work.pod[key] for key in ("nodeSelector", "tolerations") if work.pod.get(key)}
        if job:
            made["job"] = job  # the claim is bound where the job runs: it must be where the engine can be
    return made


def _managed(work: Workload, at: str, name: str, claim: Body | None) -> Body:
    made: Body = {"mode": "Managed"}
    if claim is None:
        work.notes.lost(
            at, f"PersistentVolumeClaim/{name} is in none of the files: its size and class are not known"
        )
        return made
    spec = claim.get("spec", {})
    made |= _size_and_class(spec)
    modes = spec.get("accessModes") or ()
    if "ReadWriteMany" not in modes and modes:
        made["accessMode"] = "ReadWriteOncePod" if "ReadWriteOncePod" in modes else "ReadWriteOnce"
    work.notes.replaced(
        named(claim), "a claim that the operator makes, of the same size and class; the old one can go"
    )
    work.others.remove(claim)
    return made


def _size_and_class(spec: Body) -> Body:
    made: Body = {}
    size = (spec.get("resources") or {}).get("requests", {}).get("storage")
    if size is not None:
        made["size"] = str(size)
    if spec.get("storageClassName"):
        made["storageClassName"] = spec["storageClassName"]
    return made


def _claim_body(work: Workload, name: str) -> Body | None:
    for body in work.others:
        if body["kind"] == "PersistentVolumeClaim" and (body.get("metadata") or {}).get("name") == name:
            return body
    return None


# --- pieces --------------------------------------------------------------------------------------------------
def _secret(variable: Body) -> Body | None:
    found: Body | None = (variable.get("valueFrom") or {}).get("secretKeyRef")
    return found


def _drop_env(work: Workload, name: str) -> None:
    if "env" in work.engine:
        work.engine["env"] = [one for one in work.engine["env"] if one.get("name") != name]


def _kind(work: Workload, mount: Body) -> str:
    return _kind_of(work.volume(str(mount["name"])))


def _kind_of(volume: dict[str, Any]) -> str:
    return next((key for key in volume if key != "name"), "a volume that is not there")
