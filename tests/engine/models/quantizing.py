"""Small checkpoints in every quantised format, and beside each one the plain checkpoint that it stands for.

The codes are those of the formats' own libraries where there is one that runs here (compressed-tensors, its reader of
AWQ); GPTQ's are packed by hand from whole numbers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.entrypoints.convert.converters import AutoAWQConverter
from compressed_tensors.quantization import QuantizationScheme
from compressed_tensors.quantization.utils import calculate_qparams
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.engine.models import families
from tests.engine.models.families import Family

# One matrix → what the format stores of it, by the last part of the name, and the matrix that this stands for.
Quantise = Callable[[Tensor], tuple[dict[str, Tensor], Tensor]]


@dataclass(frozen=True)
class Format:
    config: Mapping[str, Any]  # quantization_config
    quantise: Quantise


def write(
    family: Family, form: Format, folder: Path, left_out: Callable[[str], bool] = lambda _: False
) -> Path:
    """Two checkpoints: ``folder / "quantised"`` and ``folder / "plain"``, of equal logits. Returns the former."""
    families.write(family, folder / "plain")
    tensors = load_file(folder / "plain" / "model.safetensors")
    quantised, plain = {}, {}
    for name, tensor in tensors.items():
        module = name.removesuffix(".weight")
        if is_linear(name, tensor) and not left_out(module):
            stored, plain[name] = form.quantise(tensor)
            quantised.update({f"{module}.{kind}": one.clone().contiguous() for kind, one in stored.items()})
        else:
            quantised[name] = plain[name] = tensor
    save(plain, folder / "plain")
    save(quantised, folder / "quantised")
    config = json.loads((folder / "plain" / "config.json").read_text())
    changed = {**config, "quantization_config": form.config}
    (folder / "quantised" / "config.json").write_text(json.dumps(changed))
    return folder / "quantised"


def is_linear(name: str, tensor: Tensor) -> bool:
    """Not the embedding, the head, and the router of experts."""
    return tensor.dim() == 2 and ".layers." in name and not name.endswith(".gate.weight")


def save(tensors: Mapping[str, Tensor], folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    save_file(dict(tensors), folder / "model.safetensors", metadata={"format": "pt"})


def fp8_blocks(side: int, *, powers: bool = False) -> Format:
    """``powers``: scales are powers of 2, stored as their exponents."""

    def quantise(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        codes, plain = torch.empty(weight.shape, dtype=torch.float8_e4m3fn), torch.empty_like(weight)
        scales = torch.empty(-(-weight.shape[0] // side), -(-weight.shape[1] // side))
        for row, column in torch.cartesian_prod(*map(torch.arange, scales.shape)).tolist():
            here = (slice(row * side, row * side + side), slice(column * side, column * side + side))
            scale = weight[here].abs().max() / 448
            scales[row, column] = scale.log2().ceil().exp2() if powers else scale
            codes[here] = (weight[here] / scales[row, column]).to(codes.dtype)
            plain[here] = codes[here].float() * scales[row, column]
        stored = scales.to(torch.float8_e8m0fnu) if powers else scales
        return {"weight": codes, "weight_scale_inv": stored}, plain

    config = {"quant_method": "fp8", "weight_block_size": [side, side], "activation_scheme": "dynamic"}
    return Format(config, quantise)


def fp8_rows(shape: Callable[[Tensor], Tensor], **more: Tensor) -> Format:
    """``shape`` makes of each row's largest weight [rows, 1] the largest of those that share a scale."""

    def quantise(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        scale = shape(weight.abs().amax(1, keepdim=True)) / 448
        codes = (weight / scale).to(torch.float8_e4m3fn)
        return {"weight": codes, "weight_scale": scale, **more}, codes.float() * scale

    return Format({"quant_method": "fp8", "activation_scheme": "static" if more else "dynamic"}, quantise)


def compressed(form: str, activations: Mapping[str, Any] | None = None, **weights: Any) -> Format:
    """By the library's own compressor, and back by it."""
    arguments: dict[str, Any] = {"targets": ["Linear"], "weights": weights}
    if activations is not None:
        arguments["input_activations"] = activations
    scheme = QuantizationScheme(**arguments)
    compressor = BaseCompressor.get_value_from_registry(form)

    def quantise(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        scale, zero = _parameters(weight, scheme)
        state = {"weight": weight, "weight_scale": scale, "weight_zero_point": zero}
        stored = compressor.compress(state, scheme)
        return stored, compressor.decompress(stored, scheme)["weight"]

    config = {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "config_groups": {"group_0": json.loads(scheme.model_dump_json())},
    }
    return Format(config, quantise)


def _parameters(weight: Tensor, scheme: QuantizationScheme) -> tuple[Tensor, Tensor]:
    args = scheme.weights
    match args.strategy:
        case "tensor":
            parts = weight.reshape(1, -1)
        case "channel":
            parts = weight.unsqueeze(1)
        case "group":
            parts = weight.unflatten(1, (-1, args.group_size))
        case "block":
            rows, columns = args.block_structure
            blocks = weight.unflatten(1, (-1, columns)).unflatten(0, (-1, rows))
            parts = blocks.transpose(1, 2).flatten(2)
    scale, zero = calculate_qparams(parts.amin(-1), parts.amax(-1), args)
    return scale, zero.to(torch.float8_e4m3fn if args.type == "float" else torch.int8)


def awq(group: int) -> Format:
    """Packed by hand; what it stands for is what compressed-tensors' reader of AWQ makes of it."""
    reader = AutoAWQConverter(group_size=group)
    scheme = QuantizationScheme(
        targets=["Linear"],
        weights={"num_bits": 4, "strategy": "group", "group_size": group, "symmetric": False},
    )
    packed = BaseCompressor.get_value_from_registry("pack-quantized")

    def quantise(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        codes, zeros, scales = _whole_numbers(weight, group, 4)
        stored = {
            "qweight": _into_int32(codes.t()[:, _awq_order(len(weight))], 4),
            "qzeros": _into_int32(zeros.t()[:, _awq_order(len(weight))], 4),
            "scales": scales.t(),
        }
        read = reader.process({f"one.{kind}": tensor for kind, tensor in stored.items()})
        state = {name.removeprefix("one."): tensor for name, tensor in read.items()}
        return stored, packed.decompress(state, scheme)["weight"]

    config = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}
    return Format(config, quantise)


def _awq_order(rows: int) -> list[int]:
    """Of each eight rows the even ones first."""
    return [first + place for first in range(0, rows, 8) for place in (0, 2, 4, 6, 1, 3, 5, 7)]


def gptq(
    bits: int, group: int, *, symmetric: bool = False, scattered: bool = False, version: int = 1
) -> Format:
    def quantise(weight: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        columns = weight.shape[1]
        size = columns if group == -1 else group
        numbers = torch.Generator().manual_seed(columns)
        order = torch.randperm(columns, generator=numbers) if scattered else torch.arange(columns)
        index = torch.empty(columns, dtype=torch.int32)
        index[order] = (torch.arange(columns) // size).int()
        codes, zeros, scales = _whole_numbers(weight[:, order], size, bits, symmetric=symmetric)
        codes = codes[:, order.argsort()]  # the file keeps the columns where they were
        stored = {
            "qweight": _into_int32(codes, bits).t(),
            "qzeros": _into_int32((zeros.t() - (1 if version == 1 else 0)) % 2**bits, bits),
            "scales": scales.t(),
            "g_idx": index,
        }
        chosen = index.long()
        return stored, (codes - zeros[:, chosen]) * scales[:, chosen]

    config = {
        "quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": scattered, "sym": symmetric,
        "checkpoint_format": "gptq" if version == 1 else "gptq_v2",
    }  # fmt: skip
    return Format(config, quantise)


def _whole_numbers(
    weight: Tensor, group: int, bits: int, *, symmetric: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Codes [rows, columns] and zero points [rows, groups] as int64, scales [rows, groups]."""
    most = 2**bits - 1
    parts = weight.unflatten(1, (-1, group))
    low, high = parts.amin(-1).clamp(max=0), parts.amax(-1).clamp(min=0)
    if symmetric:
        high = torch.maximum(-low, high)
        low = -high
    scales = ((high - low) / most).half().float()
    zeros = torch.full_like(scales, 2 ** (bits - 1)) if symmetric else (-low / scales).round().clamp(0, most)
    codes = (parts / scales.unsqueeze(-1) + zeros.unsqueeze(-1)).round().clamp(0, most)
    return codes.flatten(1).long(), zeros.long(), scales


def _into_int32(codes: Tensor, bits: int) -> Tensor:
    """Neighbours of the last dimension, the first one lowest: [..., n] → [..., n * bits / 32]."""
    shifted = codes.unflatten(-1, (-1, 32 // bits)) << torch.arange(0, 32, bits)
    return shifted.sum(-1).to(torch.int32)
