"""``LLMService.status`` as types. The CRD is generated from them; ``status`` makes plain dicts of this shape."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from llmservice_operator.api import conditions
from llmservice_operator.api.fields import Part

Text = Annotated[str, StringConstraints(max_length=4096)]
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Condition(Part):
    type: Annotated[str, StringConstraints(min_length=1, max_length=316)] = Field(
        description="Ready; Reconciling and Stalled, which are there only while they are True; Available."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="True, False or Unknown.")
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024)] = Field(
        description="Why, in one word: the pods' and the engine's own reasons."
    )
    message: Annotated[str, StringConstraints(max_length=32768)] = Field(description="Why, in figures.")
    observed_generation: int = Field(ge=0, description="The metadata.generation that this was concluded for.")
    last_transition_time: Time = Field(description="When the status last changed.")


class Endpoint(Part):
    url: Text = Field(description="Base URL for OpenAI clients inside the cluster.")
    models: tuple[Text, ...] = Field(
        max_length=16,
        description="Names that clients may ask for.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class StartupInForce(Part):
    deadline_seconds: int = Field(ge=1, description="How long a start may take.")
    basis: Literal["Spec", "Derived"] = Field(description="Where the deadline comes from.")


class LastFailure(Part):
    pod: Text = Field(description="The pod that failed.")
    code: Text = Field(description="The reason, as in the conditions.")
    message: Text = Field(description="What it said.")
    exit_code: int | None = Field(default=None, description="Exit code of the container.")
    required_bytes: int | None = Field(default=None, ge=0, description="Memory that would be needed.")
    available_bytes: int | None = Field(default=None, ge=0, description="Memory that there is.")
    time: Time = Field(description="When it failed.")


class LLMServiceStatus(Part):
    """What is there, and what the operator concludes from it."""

    observed_generation: int = Field(
        default=-1, description="The metadata.generation that this status was concluded for; -1: none yet."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=16,
        description=f"{conditions.READY}: every wanted replica is updated and available.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    replicas: int | None = Field(default=None, ge=0, description="Replicas that exist, old ones included.")
    ready_replicas: int | None = Field(default=None, ge=0, description="Replicas whose pods are ready.")
    updated_replicas: int | None = Field(default=None, ge=0, description="Replicas of the current template.")
    available_replicas: int | None = Field(default=None, ge=0, description="Replicas that answer requests.")
    selector: Text | None = Field(default=None, description="Label selector of the replicas' pods.")
    endpoint: Endpoint | None = Field(default=None, description="Where clients find the model.")
    startup: StartupInForce | None = Field(default=None, description="The startup deadline in force.")
    last_failure: LastFailure | None = Field(
        default=None, description="The newest failure of a pod; it stays when the cause has gone."
    )
