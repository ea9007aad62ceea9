"""The tokenizer that a GGUF file carries, made by transformers from its metadata."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import pre_tokenizers

from llmservice_engine.core.errors import UnsupportedArchitecture, WeightsIncomplete
from llmservice_engine.models import gguf

_LLAMA3 = frozenset({"llama-bpe", "llama3", "llama-v3"})
_SMOLLM = "smollm"
# How a text is split before its words are merged. Where transformers does not know a name it splits as GPT-2 does,
# which would give other tokens without a word.
_SPLITS = frozenset({*_LLAMA3, "smaug-bpe", "qwen2", "deepseek-r1-qwen", "gpt-2", _SMOLLM})


def read(file: Path) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    """The tokenizer, and what ``tokenizer_config.json`` would say of special tokens and the chat template.

    Raises:
        UnsupportedArchitecture: it splits texts in a way that is not known; the message names it.
        WeightsIncomplete: the file holds no whole tokenizer.
    """
    metadata = gguf.opened(file)
    kind, split = metadata.field("tokenizer.ggml.model"), metadata.field("tokenizer.ggml.pre", "default")
    if kind != "llama" and (kind != "gpt2" or split not in _SPLITS):
        raise UnsupportedArchitecture(
            f"{file}: tokenizer.ggml.model {kind!r} with tokenizer.ggml.pre {split!r} is not read; "
            f"read: llama, and gpt2 with {', '.join(sorted(_SPLITS))}",
            hint="put the model's tokenizer.json and tokenizer_config.json beside the file",
        )
    # Here, since it imports torch, which takes seconds that no other model needs at this point.
    from transformers import AutoTokenizer

    try:
        made = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
        if split in _LLAMA3 and metadata.field("tokenizer.ggml.add_bos_token", True):
            made.add_bos_token = True  # as llama.cpp does: older files do not say it
            made.update_post_processor()
    except Exception as error:  # noqa: BLE001 (whatever an incomplete vocabulary leads to)
        raise WeightsIncomplete(
            f"{file}: no tokenizer can be made from its metadata: {type(error).__name__}: {error}",
            hint="put the model's tokenizer.json and tokenizer_config.json beside the file",
        ) from None
    backend: tokenizers.Tokenizer = made.backend_tokenizer
    if split == _SMOLLM:
        backend.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    if split in _LLAMA3:
        backend.model.ignore_merges = True  # a word that is a token is that token
    return backend, {**made.special_tokens_map, "chat_template": made.chat_template}
