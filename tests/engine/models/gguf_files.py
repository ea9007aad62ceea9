"""Small random GGUF files of the families that are read, written with the format's own library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file

from tests.engine.models import families
from tests.engine.models.families import SMALL, Family

SIZES = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "head_dim": 64,
    "rms_norm_eps": 1e-5,
}
ROUTED = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "norm_topk_prob": True}
FAMILIES = {
    "llama": Family("llama", SIZES),
    "llama, tied": Family("llama", {**SIZES, "tie_word_embeddings": True}),
    "mixtral": Family("mixtral", {**SIZES, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2": Family("qwen2", SIZES),
    "qwen3": Family("qwen3", {**SIZES, "tie_word_embeddings": True}),
    "qwen3moe": Family("qwen3_moe", {**SIZES, **ROUTED}),
}
_EXPERTS = {"gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"} | {
    "w1": "ffn_gate", "w3": "ffn_up", "w2": "ffn_down"
}  # fmt: skip


def changed(name: str, more: Mapping[str, Any]) -> Family:
    return Family(FAMILIES[name].kind, {**FAMILIES[name].config, **more})


def write(
    name: str,
    kind: Kind,
    folder: Path,
    config_change: Mapping[str, Any] | None = None,
    divisors: np.ndarray | None = None,
    **more: Any,
) -> Path:
    """The file; its plain twin, of other weights where ``kind`` rounds, lies in ``folder / "plain"``.

    divisors: of the rotary frequencies. more: metadata that is added, or taken away where None.
    """
    family = changed(name, config_change or {})
    plain = families.write(family, folder / "plain")
    config = {**SMALL, **family.config, **json.loads((plain / "config.json").read_text())}
    architecture = "llama" if family.kind in ("llama", "mixtral") else name
    out = gguf.GGUFWriter(folder / "tiny.gguf", more.pop("general.architecture", architecture))
    for key, value in {**_metadata(architecture, config), **more}.items():
        if isinstance(value, list):
            out.add_array(key, value)
        elif value is not None:
            out.add_key_value(key, value, _type_of(value))
    if divisors is not None:
        out.add_tensor("rope_freqs.weight", divisors)
    for key, tensor in _tensors(load_file(plain / "model.safetensors"), architecture, config).items():
        if tensor.ndim == 1:
            out.add_tensor(key, tensor)
        else:
            out.add_tensor(key, stored(tensor, kind), raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return folder / "tiny.gguf"


def stored(weight: np.ndarray, kind: Kind) -> np.ndarray:
    """Of a type that the library only reads: random blocks with small scales."""
    try:
        return gguf.quants.quantize(weight, kind)
    except NotImplementedError:
        pass
    size, in_bytes = gguf.GGML_QUANT_SIZES[kind]
    numbers = np.random.default_rng(weight.size)
    blocks = numbers.integers(
        0, 256, (*weight.shape[:-1], weight.shape[-1] // size, in_bytes), dtype=np.uint8
    )
    scale = np.frombuffer(np.float16(0.0005).tobytes(), dtype=np.uint8)
    places = {Kind.Q4_K: (0, 2), Kind.Q5_K: (0, 2), Kind.Q6_K: (in_bytes - 2,)}[kind]
    for place in places:  # d, and the scale of the least values
        blocks[..., place : place + 2] = scale
    return blocks.reshape(*weight.shape[:-1], -1)


def _metadata(architecture: str, config: dict[str, Any]) -> dict[str, Any]:
    own = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": float(config["rope_parameters"]["rope_theta"]),
        "expert_count": config.get("num_experts", config.get("num_local_experts")),
        "expert_used_count": config.get("num_experts_per_tok"),
        "expert_feed_forward_length": config.get("moe_intermediate_size"),
    }
    tokens = {"tokenizer.ggml.tokens": [f"<{number}>" for number in range(config["vocab_size"])]}
    return {f"{architecture}.{key}": value for key, value in own.items()} | tokens


def _type_of(value: object) -> gguf.GGUFValueType:
    if isinstance(value, str):
        return gguf.GGUFValueType.STRING
    return gguf.GGUFValueType.FLOAT32 if isinstance(value, float) else gguf.GGUFValueType.UINT32


def _tensors(weights: dict[str, Any], architecture: str, config: dict[str, Any]) -> dict[str, np.ndarray]:
    """As llama.cpp's converter names and lays them out."""
    names = gguf.get_tensor_name_map(
        {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[architecture], config["num_hidden_layers"]
    )
    found: dict[str, np.ndarray] = {}
    experts: dict[str, list[np.ndarray]] = {}
    for name, tensor in sorted(weights.items(), key=lambda item: _natural(item[0])):
        array = tensor.float().numpy()
        if ".experts." in name:
            layer, part = name.split(".")[2], name.split(".")[-2]
            experts.setdefault(f"blk.{layer}.{_EXPERTS[part]}_exps.weight", []).append(array)
            continue
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = config["num_attention_heads" if "q_proj" in name else "num_key_value_heads"]
            halves = array.reshape(heads, 2, -1, *array.shape[1:])
            array = np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(array.shape)
        key = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert key is not None, name
        found[key] = array
    return {key: np.stack(parts) for key, parts in experts.items()} | found


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in name.split(".")]
