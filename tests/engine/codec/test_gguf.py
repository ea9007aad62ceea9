"""A GGUF file brings its tokenizer and chat template; the real model answers from it as from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gguf import GGMLQuantizationType as Kind
from llmservice_engine.codec.codec import Codec
from llmservice_engine.core.errors import UnsupportedArchitecture, WeightsIncomplete
from transformers.convert_slow_tokenizer import bytes_to_unicode

from e2e import model
from tests.engine.codec.conftest import MakeFolder
from tests.engine.models import generating, gguf_files

TEXTS = (
    "   7", "In 1984, 12345 + 67 = ?", "Ärger with naïve café — 東京 🗼", "def f(x):\n\treturn x  # yes\n\n\n",
    "<|im_start|>user\nHi<|im_end|>", "don't DON'T  ' '",
)  # fmt: skip


@pytest.fixture(scope="module")
def from_file() -> Codec:
    return Codec.load(str(model.gguf()))


def test_tokens_and_template_are_those_of_the_converted_folder(from_file: Codec, codec: Codec) -> None:
    for text in TEXTS:
        assert from_file.text_tokens(text) == codec.text_tokens(text)
    assert from_file.end_ids == codec.end_ids == {2}
    assert from_file.vocabulary == codec.vocabulary
    conversation = [{"role": "user", "content": model.QUESTION}]
    assert from_file.chat_tokens(conversation) == codec.chat_tokens(conversation)


def test_the_real_file_answers_as_its_folder_does(from_file: Codec) -> None:
    engine = generating.load(model.gguf(), max_model_len=512)
    prompt = from_file.chat_tokens([{"role": "user", "content": model.QUESTION}])
    (answer,) = generating.texts(engine, {"only": prompt}, generating.greedy(8)).values()
    stream = from_file.text_stream()
    assert "".join(map(stream.push, answer)) + stream.finish() == model.ANSWER


def bytes_and(*words: str) -> dict[str, Any]:
    """A vocabulary of all bytes and some words of two."""
    letters = list(bytes_to_unicode().values())
    merges = [f"{word[0]} {word[1:]}" for word in words]
    tokens = ["<s>", "</s>", *letters, *words]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3, *[1] * (len(tokens) - 2)],
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 1,
    }


def test_a_llama_3_text_begins_with_the_start_token_though_the_file_does_not_say_so(tmp_path: Path) -> None:
    vocabulary = bytes_and("ab", "12", "abc")
    del vocabulary["tokenizer.ggml.merges"][-1]
    split = {"tokenizer.ggml.pre": "llama-bpe"}
    codec = Codec.load(str(gguf_files.write("llama", Kind.F32, tmp_path, **vocabulary, **split)))
    spelled = [vocabulary["tokenizer.ggml.tokens"][token] for token in codec.text_tokens("abc ab 1234")]
    # "abc" is whole though nothing merges to it.
    assert spelled == ["<s>", "abc", "Ġ", "ab", "Ġ", "12", "3", "4"]


def test_a_sentencepiece_vocabulary_merges_by_its_scores(tmp_path: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "a", "b", "ab", "▁ab"]
    vocabulary = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * 259 + [-5.0, -6.0, -7.0, -1.0, -2.0],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, 1, 1, 1, 1, 1],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }
    codec = Codec.load(str(gguf_files.write("llama", Kind.F32, tmp_path, **vocabulary)))
    ids = codec.text_tokens("ab aé")
    assert [tokens[token] for token in ids] == ["<s>", "▁ab", "▁", "a", "<0xC3>", "<0xA9>"]
    stream = codec.text_stream()
    assert "".join(map(stream.push, ids)) + stream.finish() == "ab aé"


@pytest.mark.parametrize("split", ["chatglm-bpe", None])
def test_a_split_that_is_not_known_is_refused_unless_the_tokenizer_lies_beside(
    split: str | None, tmp_path: Path, odd_folder: MakeFolder
) -> None:
    vocabulary = bytes_and("ab")
    file = gguf_files.write("llama", Kind.F32, tmp_path, **vocabulary, **{"tokenizer.ggml.pre": split})
    with pytest.raises(UnsupportedArchitecture, match=f"tokenizer.ggml.pre '{split or 'default'}'") as caught:
        Codec.load(str(file))
    assert "tokenizer.json" in caught.value.hint
    whole = odd_folder()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (whole / name).rename(tmp_path / name)
    assert Codec.load(str(file)).text_tokens("   7") == (333, 39)


def test_a_file_without_a_vocabulary_is_refused(tmp_path: Path) -> None:
    file = gguf_files.write("llama", Kind.F32, tmp_path)
    with pytest.raises(WeightsIncomplete, match=r"tokenizer\.ggml\.model"):
        Codec.load(str(file))
