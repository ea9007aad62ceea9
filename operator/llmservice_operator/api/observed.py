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
        description="Ready; Reconciling and Stalled, which are there only while they are True; ModelResolved, "
        "CacheReady, MemoryFits, Available, AutoscalingActive, each only where it applies."
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
    basis: Literal["Spec", "Derived", "Observed"] = Field(
        description="Where the deadline comes from: the spec, the model's size, or an earlier start of the same model."
    )
    last_load_seconds: int | None = Field(
        default=None, ge=0, description="How long a start took; the next change of the template uses it."
    )
    measured_for: Text | None = Field(default=None, description="The revision of that start.")


class ModelInForce(Part):
    revision: Text | None = Field(
        default=None, description="The commit, or another fixed name of this very content."
    )
    weight_bytes: int = Field(ge=0, description="Bytes of the weights' files.")
    parameters: int | None = Field(default=None, ge=0, description="Number of parameters.")
    dtype: Text | None = Field(default=None, description="Type of the weights.")
    context_length: int | None = Field(
        default=None, ge=0, description="Longest sequence that the model is made for, in tokens."
    )


class CacheInForce(Part):
    claim_name: Text = Field(description="The claim that holds the copy.")
    bytes_done: int | None = Field(default=None, ge=0, description="Bytes copied, in coarse steps.")
    bytes_total: int | None = Field(default=None, ge=0, description="Bytes of the whole copy.")


class Memory(Part):
    verdict: Literal["Fits", "Tight", "DoesNotFit", "Unknown"] = Field(
        description="Does the model fit? Tight: with room for few sequences of full length."
    )
    weights: int | None = Field(default=None, ge=0, description="Bytes of weights on one device.")
    kv_cache: int | None = Field(default=None, ge=0, description="Bytes of the KV cache on one device.")
    activations: int | None = Field(default=None, ge=0, description="Bytes of scratch memory on one device.")
    overhead: int | None = Field(default=None, ge=0, description="Bytes of runtime and graphs on one device.")
    available: int | None = Field(default=None, ge=0, description="Bytes that there are on one device.")
    kv_tokens: int | None = Field(default=None, ge=0, description="Tokens that the KV cache holds.")
    source: Literal["Estimated", "Measured"] = Field(
        description="Estimated by the planner, or Measured by an engine."
    )


class RolloutInForce(Part):
    strategy: Literal["Surge", "Recycle", "Recreate"] = Field(description="How replicas are replaced.")
    reason: Text = Field(description="Why so.")


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
    model: ModelInForce | None = Field(default=None, description="The model as it was looked up.")
    cache: CacheInForce | None = Field(default=None, description="The copy of the model.")
    memory: Memory | None = Field(default=None, description="The verdict on memory and its figures.")
    rollout: RolloutInForce | None = Field(default=None, description="How replicas are replaced.")
    last_failure: LastFailure | None = Field(
        default=None, description="The newest failure of a pod; it stays when the cause has gone."
    )
