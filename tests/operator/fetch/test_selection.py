"""What is copied by default, and what is told of a config."""

from __future__ import annotations

import json

import pytest
from llmservice_operator.fetch import selection, shape

BESIDES = {"config.json", "tokenizer.json", "chat_template.jinja"}


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        ({"model.safetensors", "pytorch_model.bin", "model.onnx", "m.gguf"}, {"model.safetensors"}),
        ({"model.safetensors", "original/model.safetensors", "metal/model.bin"}, {"model.safetensors"}),
        ({"model.safetensors", "consolidated.safetensors"}, {"model.safetensors"}),
        ({"consolidated.safetensors"}, {"consolidated.safetensors"}),
        ({"pytorch_model.bin", "training_args.bin", "a.pth"}, {"pytorch_model.bin"}),
        ({"model.gguf"}, set()),
    ],
)
def test_the_same_weights_are_copied_once(weights: set[str], wanted: set[str]) -> None:
    rest = {"README.md", ".gitattributes", "picture.png", "onnx/config.json"}
    assert selection.choose(weights | BESIDES | rest) == wanted | BESIDES


def test_a_shape_always_fits_and_loses_the_longest_first() -> None:
    part = {"hidden_size": 8, **{f"num_of_{n}": list(range(200)) for n in range(9)}}
    told = shape.fields({**part, "text_config": part})
    assert len(json.dumps(told)) <= 3000
    assert told["hidden_size"] == told["text_config"]["hidden_size"] == 8
