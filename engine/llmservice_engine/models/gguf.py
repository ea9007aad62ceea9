"""A GGUF file's metadata, in the words of ``config.json``. Llama and Qwen families."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import gguf
from numpy.typing import NDArray

from llmservice_engine.core.errors import UnsupportedArchitecture, WeightsIncomplete

ROPE_DIVISORS = "rope_freqs.weight"  # Llama 3.1 and later: what llama.cpp divides each frequency by

_ARCHITECTURES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3moe": "Qwen3MoeForCausalLM",
}
_PLAIN = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}


class Tensor(Protocol):
    """A tensor of the file, mapped: nothing is read before it is looked at."""

    name: str
    tensor_type: gguf.GGMLQuantizationType
    data: NDArray[Any]  # blocks of a quantised type as bytes: [..., rows, bytes of a row]


class File:
    """A GGUF file that is mapped, and its metadata by name."""

    def __init__(self, path: Path) -> None:
        """Raises WeightsIncomplete where it cannot be read."""
        self.path = path
        try:
            reader = gguf.GGUFReader(path)
            fields = {name: field.contents() for name, field in reader.fields.items()}
        except Exception as error:  # noqa: BLE001 (the library raises whatever damage leads to)
            raise WeightsIncomplete(
                f"{path} is damaged or is no GGUF file: {error}", hint="copy the file again"
            ) from None
        self._fields: Mapping[str, Any] = fields
        self.tensors: Mapping[str, Tensor] = {tensor.name: tensor for tensor in reader.tensors}
        self.architecture = str(self.field("general.architecture"))

    def field(self, name: str, default: Any = None) -> Any:
        """Raises WeightsIncomplete where there is neither the field nor a default."""
        found = self._fields.get(name, default)
        if found is None:
            raise WeightsIncomplete(
                f"{self.path} has no {name} in its metadata", hint="use another GGUF file"
            )
        return found

    def own(self, name: str, default: Any = None) -> Any:
        """A field of its architecture, one figure for all layers."""
        found = self.field(f"{self.architecture}.{name}", default)
        if isinstance(found, list):
            raise UnsupportedArchitecture(
                f"{self.path}: {self.architecture}.{name} differs from layer to layer, which is not served",
                hint="use a model whose layers are alike",
            )
        return found


@functools.lru_cache(
    maxsize=1
)  # the metadata of a large vocabulary takes seconds, and three parts ask for it
def opened(path: Path) -> File:
    """Raises WeightsIncomplete where the file cannot be read."""
    return File(path)


def config(path: Path) -> dict[str, Any]:
    """What ``config.json`` would say.

    Raises:
        UnsupportedArchitecture: the file holds another kind of model, or a part of one.
        WeightsIncomplete: it cannot be read, or lacks a figure; the message names it.
    """
    file = opened(path)
    if file.architecture not in _ARCHITECTURES:
        raise UnsupportedArchitecture(
            f"{path}: general.architecture {file.architecture!r} is not read from GGUF files; "
            f"read: {', '.join(_ARCHITECTURES)}",
            hint="use the model's safetensors",
        )
    if file.field("split.count", 1) > 1:
        raise UnsupportedArchitecture(
            f"{path} is one of {file.field('split.count')} parts",
            hint="join them with llama-gguf-split --merge",
        )
    tensors = file.tensors
    heads, hidden = file.own("attention.head_count"), file.own("embedding_length")
    head = file.own("attention.key_length", hidden // heads)
    for name in ("attention.value_length", "rope.dimension_count"):
        if file.own(name, head) != head:
            raise UnsupportedArchitecture(
                f"{path}: {file.architecture}.{name} {file.own(name)} is not served; served: {head}, a head's width",
                hint="use another model",
            )
    context = file.own("context_length")
    return {
        "architectures": [_ARCHITECTURES[file.architecture]],
        "hidden_size": hidden,
        "intermediate_size": file.own("feed_forward_length"),
        "num_hidden_layers": file.own("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": file.own("attention.head_count_kv", heads),
        "head_dim": head,
        "vocab_size": len(_tensor(file, "token_embd.weight").data),
        "max_position_embeddings": context,
        "rms_norm_eps": file.own("attention.layer_norm_rms_epsilon"),
        "rope_parameters": _rope(file, context),
        "tie_word_embeddings": "output.weight" not in tensors,
        "attention_bias": "blk.0.attn_q.bias" in tensors,
        "dtype": _dtype(tensors),
        "eos_token_id": [
            file.field(f"tokenizer.ggml.{kind}_token_id")
            for kind in ("eos", "eot")
            if file.field(f"tokenizer.ggml.{kind}_token_id", -1) >= 0
        ],
        **_experts(file),
    }


def _experts(file: File) -> dict[str, Any]:
    count = file.own("expert_count", 0)
    if not count:
        return {}
    active = file.own("expert_used_count")
    if file.architecture == "llama":
        return {
            "architectures": ["MixtralForCausalLM"],
            "num_local_experts": count,
            "num_experts_per_tok": active,
        }
    return {
        "num_experts": count,
        "num_experts_per_tok": active,
        "moe_intermediate_size": file.own("expert_feed_forward_length"),
        "norm_topk_prob": True,  # llama.cpp always does
    }


def _rope(file: File, context: int) -> dict[str, Any]:
    """The rotation. Divisors of each frequency are what ``longrope`` is, with nothing else of it."""
    parameters = {"rope_theta": file.own("rope.freq_base", 10_000.0), "rope_type": "default"}
    kind = file.own("rope.scaling.type", "none")
    divisors = file.tensors.get(ROPE_DIVISORS)
    if divisors is not None:
        factors = divisors.data.tolist()
        return {
            **parameters,
            "rope_type": "longrope",
            "short_factor": factors,
            "long_factor": factors,
            "attention_factor": 1.0,
            "original_max_position_embeddings": context,
        }
    if kind == "none":
        return parameters
    return {
        **parameters,
        "rope_type": kind,
        "factor": file.own("rope.scaling.factor"),
        "original_max_position_embeddings": file.own("rope.scaling.original_context_length", context),
    }


def _dtype(tensors: Mapping[str, Tensor]) -> str:
    """The narrowest plain type in the file; where matrices are quantised bfloat16, as nearly all models had before."""
    kinds = {tensor.tensor_type.name for tensor in tensors.values()}
    if not kinds <= set(_PLAIN):
        return "bfloat16"
    return _PLAIN["BF16" if "BF16" in kinds else "F16" if "F16" in kinds else "F32"]


def _tensor(file: File, name: str) -> Tensor:
    found = file.tensors.get(name)
    if found is None:
        raise WeightsIncomplete(f"{file.path} lacks the tensor {name}", hint="use another GGUF file")
    return found
