"""Rotations in every spelling that folders have, and lengths beyond the original training's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from llmservice_engine.core.errors import InvalidSettings

from tests.engine.models import families, generating, stepping
from tests.engine.models.families import FAMILIES, LLAMA3, LONGROPE, YARN, Family
from tests.engine.models.stepping import Stepper
from tests.engine.models.test_checkpoints import change_config


def logits(folder: Path, tokens: int = 45, context: int | None = None) -> torch.Tensor:
    prompt = families.prompts(Family("any", lengths=(tokens,)))[f"{tokens} tokens"]
    return stepping.in_pieces(Stepper(folder, context), {"a": prompt}, 1000)["a"]


def older(parameters: dict[str, Any], *, key: str = "rope_type", name: str | None = None) -> dict[str, Any]:
    """``rope_parameters`` as folders had them before transformers 5."""
    scaling = dict(parameters["rope_parameters"])
    theta, kind = scaling.pop("rope_theta"), scaling.pop("rope_type")
    return {"rope_parameters": None, "rope_theta": theta, "rope_scaling": {key: name or kind, **scaling}}


@pytest.mark.parametrize(
    ("parameters", "changes"),
    [
        (families.rope("default"), {"rope_parameters": None, "rope_theta": 500.0, "rope_scaling": None}),
        (LLAMA3, older(LLAMA3)),
        (YARN, older(YARN, key="type")),
        (LONGROPE, older(LONGROPE, key="type")),
        (LONGROPE, older(LONGROPE, key="type", name="su")),
        (LONGROPE, older(LONGROPE, key="type", name="yarn")),
    ],
    ids=["theta", "llama3", "yarn", "longrope", "longrope as su", "longrope as yarn"],
)
def test_older_spellings_mean_the_same(
    tmp_path: Path, parameters: dict[str, Any], changes: dict[str, Any]
) -> None:
    folder = families.write(Family("llama", parameters), tmp_path)
    wanted = logits(folder)
    change_config(folder, **changes)
    assert "rope_parameters" not in json.loads((folder / "config.json").read_text())
    assert torch.equal(logits(folder), wanted)


def test_gemma3s_older_spelling_scales_full_layers_only(tmp_path: Path) -> None:
    name = "gemma3, full layers scaled"
    folder = families.write(FAMILIES[name], tmp_path)
    wanted = logits(folder)
    scaling = {"rope_type": "linear", "factor": 8.0}
    change_config(
        folder, rope_parameters=None, rope_scaling=scaling, rope_theta=1000.0, rope_local_base_freq=100.0,
        layer_types=None, sliding_window_pattern=2,
    )  # fmt: skip
    assert torch.equal(logits(folder), wanted)


def test_the_original_length_may_lie_beside_the_scaling(tmp_path: Path) -> None:
    folder = families.write(Family("llama", LONGROPE), tmp_path)
    wanted = logits(folder)
    scaling = {
        key: value
        for key, value in LONGROPE["rope_parameters"].items()
        if key != "original_max_position_embeddings"
    }
    change_config(folder, rope_parameters=scaling, original_max_position_embeddings=16)
    assert torch.equal(logits(folder), wanted)


@pytest.mark.parametrize("parameters", [LLAMA3, YARN], ids=["llama3", "yarn"])
def test_logits_at_one_and_a_half_times_the_original_length_and_up_to_the_limit(
    tmp_path: Path, parameters: dict[str, Any]
) -> None:
    """The original length is 16: a token at position 3 tells on 24 and on 127 as it does in transformers."""
    folder = families.write(Family("llama", {**parameters, "max_position_embeddings": 128}), tmp_path)
    prompt = families.prompts(Family("any", lengths=(128,)))["128 tokens"]
    other = [*prompt[:3], prompt[3] ^ 1, *prompt[4:]]
    told, elsewhere = (stepping.in_pieces(Stepper(folder), {"a": ids}, 1000)["a"] for ids in (prompt, other))
    reference = families.reference(folder)
    for place in (24, 127):
        torch.testing.assert_close(
            told[place] - elsewhere[place],
            families.logits_of(reference, prompt)[place] - families.logits_of(reference, other)[place],
            rtol=0,
            atol=1e-4,
        )
        assert (told[place] - elsewhere[place]).abs().max() > 1e-3


def test_the_longest_length_is_the_scaled_one_and_more_has_to_be_insisted_on(tmp_path: Path) -> None:
    scaled = families.rope("yarn", factor=4.0, original_max_position_embeddings=64)
    folder = families.write(Family("llama", {**scaled, "max_position_embeddings": 64}), tmp_path)
    assert generating.load(folder).info.max_model_len == 256
    with pytest.raises(InvalidSettings) as refused:
        generating.load(folder, max_model_len=257)
    assert "own limit of 256 tokens" in refused.value.message
    assert """--hf-overrides '{"max_position_embeddings": 257}'""" in refused.value.hint
    engine = generating.load(folder, max_model_len=257, hf_overrides={"max_position_embeddings": 257})
    assert engine.info.max_model_len == 257
    assert len(generating.texts(engine, {"a": [5] * 250}, generating.greedy(7))["a"]) == 7


def test_yarn_switched_on_from_the_command_line_is_that_of_the_folder(tmp_path: Path) -> None:
    plain = families.write(Family("llama"), tmp_path / "plain")
    scaled = families.write(Family("llama", YARN), tmp_path / "scaled")
    prompts = families.prompts(FAMILIES["llama"])
    switched, own = (
        generating.texts(generating.load(folder, **settings), prompts, generating.greedy(12))
        for folder, settings in ((plain, {"hf_overrides": YARN}), (scaled, {}))
    )
    assert switched == own
