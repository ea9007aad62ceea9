"""``/v1/embeddings``: the model's state after a text's last token, as a vector of length 1."""

from __future__ import annotations

import array
import base64
import sys
import time
import uuid
from typing import Literal

import msgspec
from aiohttp import web

from llmservice_engine.api import admission, fields, problem, schema
from llmservice_engine.api.handlers import REQUEST_ID, SERVICE, off_loop
from llmservice_engine.api.job import Choice, Job
from llmservice_engine.codec.codec import Codec
from llmservice_engine.core.sampling_params import SamplingParams

_PARAMS = SamplingParams(max_tokens=0, pooled=True)
_UNSERVED = {
    "dimensions": "dimensions is not served: this model was not trained to have its vectors cut",
    "truncate_prompt_tokens": "truncate_prompt_tokens is not served: shorten the input",
}


class EmbeddingsRequest(msgspec.Struct, kw_only=True):
    model: str | None = None
    input: schema.Prompts | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    truncate_prompt_tokens: int | None = None
    user: str | None = None


class Embedding(msgspec.Struct, kw_only=True):
    object: str
    index: int
    embedding: list[float] | str  # base64: of little-endian 32-bit floats


class EmbeddingsUsage(msgspec.Struct, kw_only=True):
    prompt_tokens: int
    total_tokens: int


class EmbeddingsAnswer(msgspec.Struct, kw_only=True):
    object: str
    data: list[Embedding]
    model: str
    usage: EmbeddingsUsage


async def create(request: web.Request) -> web.Response:
    service, arrived_at = request.app[SERVICE], time.monotonic()
    with service.answering():
        engine, codec = service.admitting()
        raw = await request.read()
        given = schema.decode(raw)
        typed = schema.typed(given, EmbeddingsRequest)
        fields.log_unknown(given, EmbeddingsRequest.__struct_fields__, request[REQUEST_ID])
        for field, reason in _UNSERVED.items():
            if getattr(typed, field) is not None:
                raise problem.unsupported(field, reason)
        model = service.model(typed.model)
        prompts = await off_loop(len(raw), lambda: admission.pooled(typed.input, codec, engine))
        job = Job(request[REQUEST_ID], _choices(prompts, codec), arrived_at)
        service.submit(job)
        try:
            async for _ in job.pieces():
                pass
        finally:
            service.release(job)
        return problem.json_response(_answer(job, model, as_base64=typed.encoding_format == "base64"))


def _choices(prompts: tuple[tuple[int, ...], ...], codec: Codec) -> list[Choice]:
    answer_id = f"embd-{uuid.uuid4().hex}"
    return [
        Choice(index, f"{answer_id}-{index}", prompt, _PARAMS, codec.text_stream())
        for index, prompt in enumerate(prompts)
    ]


def _answer(job: Job, model: str, *, as_base64: bool) -> EmbeddingsAnswer:
    data = [
        Embedding(
            object="embedding",
            index=choice.index,
            embedding=_base64(choice.embedding) if as_base64 else list(choice.embedding),
        )
        for choice in job.choices
    ]
    usage = EmbeddingsUsage(prompt_tokens=job.prompt_tokens, total_tokens=job.prompt_tokens)
    return EmbeddingsAnswer(object="list", data=data, model=model, usage=usage)


def _base64(vector: tuple[float, ...]) -> str:
    floats = array.array("f", vector)
    if sys.byteorder == "big":
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode()
