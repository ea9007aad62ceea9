"""Every family that is served, against transformers: logits at each position, and greedy text."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import torch
from llmservice_engine.core.errors import UnsupportedArchitecture, WeightsIncomplete
from llmservice_engine.models import registry
from safetensors.torch import load_file, save_file

from tests.engine.models import families, generating, stepping
from tests.engine.models.families import FAMILIES, Family
from tests.engine.models.stepping import Stepper

BOUND = 1e-4  # of logits in fp32
TIE = 1e-3  # logits that are no further apart may change places
PIECES = {"one prefill": 1000, "chunks": 7, "one token at a time": 1}


class Case:
    """A checkpoint of one family and what transformers says of it."""

    def __init__(self, family: Family, folder: Path) -> None:
        self.family = family
        self.folder = families.write(family, folder)
        self.reference = families.reference(self.folder)
        self.prompts = families.prompts(family)
        self.logits = {name: families.logits_of(self.reference, ids) for name, ids in self.prompts.items()}

    def stepper(self) -> Stepper:
        return Stepper(self.folder, self.family.context)


@pytest.fixture(scope="module")
def make_case(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return functools.cache(lambda name: Case(FAMILIES[name], tmp_path_factory.mktemp("family")))


@pytest.fixture(params=list(FAMILIES))
def case(request: pytest.FixtureRequest, make_case: Any) -> Case:
    found: Case = make_case(request.param)
    return found


def assert_same(got: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    for name, logits in got.items():
        torch.testing.assert_close(logits, wanted[name], rtol=0, atol=BOUND)


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_logits_are_those_of_transformers_at_every_position(case: Case, piece: int) -> None:
    (longest, *_) = case.prompts
    alone = {longest: case.prompts[longest]}
    assert_same(stepping.in_pieces(case.stepper(), alone, piece), case.logits)


@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_neighbours_of_other_lengths_change_no_logits(case: Case, piece: int) -> None:
    assert_same(stepping.in_pieces(case.stepper(), case.prompts, piece), case.logits)


def test_a_prompt_joins_others_that_decode_and_all_logits_stay(case: Case) -> None:
    """Chunks and single tokens in one step."""
    stepper = case.stepper()
    (late, *early) = case.prompts
    found = {name: [stepper.step({name: case.prompts[name][:10]})[name]] for name in early}
    found[late] = []
    for number in range(4):
        step = {name: case.prompts[name][10 + number : 11 + number] for name in early}
        step[late] = case.prompts[late][11 * number : 11 * number + 11]
        for name, logits in stepper.step(step).items():
            found[name].append(logits)
    for name, parts in found.items():
        joined = torch.cat(parts)
        torch.testing.assert_close(joined, case.logits[name][: len(joined)], rtol=0, atol=BOUND)


@pytest.mark.parametrize(
    "case", [name for name in FAMILIES if name != "llama, dynamic rope, long"], indirect=True
)  # there transformers rotates otherwise as soon as the text has grown
def test_greedy_text_is_that_of_transformers(case: Case) -> None:
    settings = {} if case.family.context is None else {"max_model_len": case.family.context}
    engine = generating.load(case.folder, **settings)
    got = generating.texts(engine, case.prompts, generating.greedy(12))
    for name, prompt in case.prompts.items():
        known = list(prompt)
        for token in got[name]:
            best = families.logits_of(case.reference, known)[-1]
            assert best.max() - best[token] <= TIE, f"{name}, after {len(known)} tokens"
            known.append(token)


@pytest.mark.parametrize("name", ["llama", "qwen3 moe", "gemma3", "phi3"])
def test_several_files_load_like_one(name: str, make_case: Any, tmp_path: Path) -> None:
    whole: Case = make_case(name)
    folder = families.write(whole.family, tmp_path, max_shard_size="60KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    (first, *_) = whole.prompts
    assert_same(stepping.in_pieces(Stepper(folder), {first: whole.prompts[first]}, 1000), whole.logits)


@pytest.mark.parametrize("name", ["mixtral", "gemma2", "olmo2", "phi3"])
def test_a_tensor_too_few_and_one_too_many_are_named(name: str, tmp_path: Path) -> None:
    file = families.write(FAMILIES[name], tmp_path) / "model.safetensors"
    tensors = load_file(file)
    gone = sorted(tensors)[len(tensors) // 2]
    taken = tensors.pop(gone)
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(WeightsIncomplete, match=gone.replace(".", r"\.")):
        Stepper(tmp_path)
    more = {**tensors, gone: taken, "model.layers.0.self_attn.surprise": torch.ones(3)}
    save_file(more, file, metadata={"format": "pt"})
    with pytest.raises(UnsupportedArchitecture, match=r"model\.layers\.0\.self_attn\.surprise"):
        Stepper(tmp_path)


@pytest.mark.parametrize(
    "name", ["mistral", "qwen2", "qwen3 moe", "gemma2, other caps, untied", "phi3", "olmo2"]
)
def test_an_untied_model_of_any_family_needs_its_head(name: str, tmp_path: Path) -> None:
    file = families.write(FAMILIES[name], tmp_path) / "model.safetensors"
    tensors = load_file(file)
    del tensors["lm_head.weight"]
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(WeightsIncomplete, match=r"lacks 1 of \d+ tensors: lm_head\.weight"):
        Stepper(tmp_path)


def test_what_reads_images_is_neither_loaded_nor_counted(make_case: Any) -> None:
    beside, alone = (
        generating.load(make_case(name).folder).info for name in ("gemma3, beside an eye", "gemma3")
    )
    assert (beside.parameters, beside.weight_bytes) == (alone.parameters, alone.weight_bytes)


def test_overrides_reach_the_text_model_of_one_that_also_sees(make_case: Any) -> None:
    folder = make_case("gemma3, beside an eye").folder
    engine = generating.load(folder, max_model_len=200, hf_overrides={"max_position_embeddings": 200})
    assert engine.info.max_model_len == 200


def test_every_family_that_is_served_is_compared(make_case: Any) -> None:
    compared = {type(make_case(name).reference).__name__ for name in FAMILIES}
    assert compared == set(registry.DECODERS)


@pytest.mark.parametrize("name", ["mistral, window", "qwen2, window", "gemma2", "gemma3"])
def test_the_last_token_that_a_window_sees_counts_and_the_one_before_does_not(
    name: str, make_case: Any, tmp_path: Path
) -> None:
    """Positions W-1, W and W+1, in the first sliding layer's own terms: a model of that layer and no other."""
    family = FAMILIES[name]
    sole = {"num_hidden_layers": 1, "max_window_layers": 0, "layer_types": ["sliding_attention"]}
    if family.kind == "mistral":
        sole = {"num_hidden_layers": 1}
    window = 8
    folder = families.write(Family(family.kind, {**family.config, **sole}), tmp_path)
    prompt = families.prompts(family)["45 tokens"]
    changed = [prompt[0] ^ 1, *prompt[1:]]
    for piece in (1000, 3, 1):
        before, after = (
            stepping.in_pieces(Stepper(folder), {"a": ids}, piece)["a"] for ids in (prompt, changed)
        )
        wanted = families.logits_of(families.reference(folder), prompt)
        differs = [not torch.equal(one, other) for one, other in zip(before, after, strict=True)]
        for place in (window - 1, window, window + 1):
            torch.testing.assert_close(before[place], wanted[place], rtol=0, atol=BOUND)
            assert differs[place] is (place < window), f"position {place}"
