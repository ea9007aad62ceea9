"""What the types alone cannot say. CEL says most of it to the API server too; here it is said again for a cluster
with an older schema, and with the figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llmservice_planner import settings

from llmservice_operator.api import contract, durations, names, quantities
from llmservice_operator.api.errors import InvalidSpec

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from llmservice_operator.api.engine import EngineBase
    from llmservice_operator.api.scaling import Autoscaling, Rollout

OWNED_FLAGS = tuple(sorted(settings.flag(name) for name in settings.OPERATOR_OWNED))
OWNED_FLAG_PATTERN = (
    "^--(" + "|".join(sorted(name.replace("_", "[-_]") for name in settings.OPERATOR_OWNED)) + ")(=.*)?$"
)


def path(location: Sequence[str | int]) -> str:
    """A pydantic location as Kubernetes writes it: ``spec.engine.args[2]``."""
    text = "spec"
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part not in {"int", "str"}:  # branches of int-or-string
            text += f".{part}"
    return text


def message(problem: ErrorDetails) -> str:
    """A pydantic problem as a sentence with the value in it."""
    text = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "missing":
        return "is needed"
    if problem["type"] == "extra_forbidden":
        return "is not a field that this operator knows"
    given = repr(problem["input"])
    return f"{given if len(given) <= 80 else given[:79] + '…'}: {text}"


def quantity(value: int | str) -> int | str:
    """A field validator.

    Raises:
        ValueError: not a quantity.
    """
    quantities.parse(value)
    return value


PERCENT = r"^[0-9]{1,3}%$"


def int_or_percent(value: int | str) -> int | str:
    """A field validator.

    Raises:
        ValueError: neither a number of at least 0 nor a percentage.
    """
    if (value < 0) if isinstance(value, int) else re.match(PERCENT, value) is None:
        raise ValueError("must be a number of at least 0, or a percentage like 25%")
    return value


def inside(folder: str) -> str:
    """A field validator.

    Raises:
        ValueError: the path leaves the claim.
    """
    if ".." in folder.split("/"):
        raise ValueError("must not contain '..': it stays in the claim")
    return folder


def duration(value: str) -> str:
    """A field validator.

    Raises:
        ValueError: not a duration, or longer than a day.
    """
    if durations.seconds(value) > durations.LONGEST:
        raise ValueError(f"must be at most {durations.LONGEST // 3600}h")
    return value


def some_time(value: str) -> str:
    """A field validator.

    Raises:
        ValueError: no time at all.
    """
    if durations.seconds(value) == 0:
        raise ValueError("must be at least 1s")
    return value


def cache(
    source: str, mode: str, given: Mapping[str, Any], rules: Sequence[tuple[str, Sequence[str]]]
) -> None:
    """Raises InvalidSpec where ``spec.cache`` has a field that its mode, or the source, does not take."""
    if source == "pvc":
        raise InvalidSpec("spec.cache", "is for sources hf and s3: weights on a claim of yours need no copy")
    for field, modes in rules:
        if field in given and mode not in modes:
            raise InvalidSpec(
                f"spec.cache.{field}", f"only cache.mode {' and '.join(modes)} takes it, not {mode}"
            )
    if mode == "Existing" and "claimName" not in given:
        raise InvalidSpec("spec.cache.claimName", "is needed: mode Existing uses a claim of yours")


def scaling(autoscaling: Autoscaling, replicas: int | None) -> None:
    """Raises InvalidSpec where autoscaling contradicts itself or ``spec.replicas``."""
    least, most, at = autoscaling.min_replicas, autoscaling.max_replicas, "spec.autoscaling"
    if replicas is not None:
        raise InvalidSpec("spec.replicas", "is the autoscaler's; use autoscaling.minReplicas and maxReplicas")
    if least > most:
        raise InvalidSpec(f"{at}.minReplicas", f"{least} is more than maxReplicas {most}")
    if least == 0 and autoscaling.backend == "HPA":
        raise InvalidSpec(
            f"{at}.minReplicas", "0 needs backend KEDA or External: with no pod there is no figure"
        )
    if (autoscaling.backend == "KEDA") != (autoscaling.keda is not None):
        raise InvalidSpec(f"{at}.keda", "is needed by backend KEDA, and only by it")


def rollout(given: Rollout) -> None:
    """Raises InvalidSpec where the figures are not the strategy's, or no replica could ever be replaced."""
    figures = (given.max_surge, given.max_unavailable)
    if given.strategy != "Surge" and figures != (None, None):
        raise InvalidSpec("spec.rollout", "maxSurge and maxUnavailable are for strategy Surge")
    if None not in figures and all(str(figure).rstrip("%").strip("0") == "" for figure in figures):
        raise InvalidSpec(
            "spec.rollout.maxUnavailable", "must not be 0 where maxSurge is 0: nothing could roll"
        )


def one_source(source: object, sources: Sequence[str]) -> None:
    """Raises InvalidSpec unless exactly one source is given."""
    given = [name for name in sources if getattr(source, name) is not None]
    if len(given) != 1:
        said = " and ".join(given) or "none"
        raise InvalidSpec(
            "spec.model.source", f"exactly one source is needed ({', '.join(sources)}), given: {said}"
        )


def resources(requests: Mapping[str, int | str], limits: Mapping[str, int | str], device: str) -> None:
    """Raises InvalidSpec where the accelerator is named, or request and limit contradict each other."""
    for side, given in (("requests", requests), ("limits", limits)):
        if device in given:
            raise InvalidSpec(
                f"spec.resources.{side}[{device}]", "is counted by spec.accelerator.count; leave it out here"
            )
    for name in sorted(set(requests) & set(limits)):
        one, other = requests[name], limits[name]
        if "/" in name and not quantities.equal(one, other):
            raise InvalidSpec(
                f"spec.resources.limits[{name}]",
                f"{other} differs from the request {one}; an extended resource needs both equal, or only one of them",
            )
        if quantities.parse(one) > quantities.parse(other):
            raise InvalidSpec(f"spec.resources.requests[{name}]", f"{one} is more than the limit {other}")


def arguments(given: EngineBase) -> None:
    """Raises InvalidSpec on a flag that the operator owns; with the operator's own image, on any that is unknown.

    Another image may know other flags, and ``$(NAME)`` is known only in the pod: there the engine judges.
    """
    for index, argument in enumerate(given.args):
        field = settings.flag_given(argument)
        if field in settings.OPERATOR_OWNED:
            raise InvalidSpec(
                f"spec.engine.args[{index}]",
                f"{settings.flag(field)} is set by the operator{_instead(field)}",
            )
    if given.runtime != "Bundled" and given.image is None:
        raise InvalidSpec(
            "spec.engine.image", f"is needed: runtime {given.runtime} is not the operator's own engine"
        )
    if given.image is not None or any("$(" in argument for argument in given.args):
        return
    try:
        settings.parse_args(["--model", "MODEL", *given.args])
    except settings.SettingsError as error:
        raise InvalidSpec("spec.engine.args", str(error)) from None


def _instead(field: str) -> str:
    places = {
        "model": "spec.model.source",
        "served_model_name": "spec.model.servedNames",
        "port": "spec.expose.service.port",
        "drain_timeout": "spec.rollout.drainTimeout",
    }
    return f"; use {places[field]}" if field in places else ""


def template(metadata: Mapping[str, Any], spec: Mapping[str, Any], drain_timeout: str) -> None:
    """Raises InvalidSpec where ``spec.template`` would break what the operator promises or finds its pods by."""
    labels = metadata.get("labels")
    for key in labels if isinstance(labels, Mapping) else ():
        if key in names.OWNED_LABELS:
            raise InvalidSpec(f"spec.template.metadata.labels[{key}]", "is set by the operator")
    grace, least = (
        spec.get("terminationGracePeriodSeconds"),
        contract.grace_seconds(durations.seconds(drain_timeout)),
    )
    if isinstance(grace, int) and grace < least:
        raise InvalidSpec(
            "spec.template.spec.terminationGracePeriodSeconds",
            f"{grace} s would cut the drain short: rollout.drainTimeout {drain_timeout} needs {least} s",
        )
    for field in ("containers", "initContainers", "volumes"):
        if spec.get(field) is not None and not _named(spec[field]):
            raise InvalidSpec(f"spec.template.spec.{field}", "must be a list of objects, each with a name")
    for container in spec.get("containers") or ():
        ports = container.get("ports") or []
        if not (isinstance(ports, list) and all(isinstance(port, Mapping) for port in ports)):
            at = f"spec.template.spec.containers[{container['name']}].ports"
            raise InvalidSpec(at, "must be a list of objects")
        if container["name"] == names.ENGINE:
            _engine_container(container)
        elif any(port.get("name") == names.HTTP_PORT for port in container.get("ports") or ()):
            raise InvalidSpec(
                f"spec.template.spec.containers[{container['name']}].ports",
                f"the name {names.HTTP_PORT} is the engine's: the Service finds its port by it",
            )


def _engine_container(container: Mapping[str, Any]) -> None:
    at = f"spec.template.spec.containers[{names.ENGINE}]"
    if "args" in container:
        raise InvalidSpec(f"{at}.args", "are set by the operator; use spec.engine.args")
    for port in container.get("ports") or ():
        if (port.get("containerPort") == contract.PORT) != (port.get("name") == names.HTTP_PORT):
            raise InvalidSpec(
                f"{at}.ports", f"port {contract.PORT} is the engine's and is named {names.HTTP_PORT}"
            )


def service_labels(labels: Mapping[str, str]) -> None:
    """Raises InvalidSpec on a label that the operator owns."""
    for key in sorted(labels.keys() & names.OWNED_LABELS):
        raise InvalidSpec(f"spec.expose.service.labels[{key}]", "is set by the operator")


def _named(items: object) -> bool:
    return isinstance(items, list) and all(
        isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items
    )
