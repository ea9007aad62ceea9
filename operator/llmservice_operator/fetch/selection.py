"""Which files of a repository are copied."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

# In the order in which one replaces the next: a repository often holds the same weights in several formats.
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
_NOT_WEIGHTS = ("training_args.bin", "optimizer*", "scheduler*", "rng_state*")
_BESIDES = (
    *("*.json", "*.jinja", "*.txt", "*.model", "*.py"),
    *("*.tiktoken", "*.bpe", "*.vocab", "tokenizer*", "merges*", "vocab*"),
)
# The same weights once more, for other frameworks.
_OTHER_FORMATS = ("original", "onnx", "openvino", "coreml", "flax", "tensorflow", "metal", "gguf", "runs")
_WEIGHT_SUFFIXES = (*_WEIGHTS, ".gguf")
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


def is_weight(path: str) -> bool:
    name = PurePosixPath(path).name
    return name.endswith(_WEIGHT_SUFFIXES) and not any(fnmatchcase(name, pattern) for pattern in _NOT_WEIGHTS)


def choose(paths: Iterable[str], patterns: Collection[str] = ()) -> set[str]:
    """By ``patterns`` as the hub's own tools read them (``*`` crosses folders), else what an engine needs."""
    paths = list(paths)
    if patterns:
        globs = [pattern + "*" if pattern.endswith("/") else pattern for pattern in patterns]
        return {path for path in paths if any(fnmatchcase(path, glob) for glob in globs)}
    paths = [path for path in paths if _for_an_engine(path)]
    chosen = {path for path in paths if any(fnmatchcase(PurePosixPath(path).name, glob) for glob in _BESIDES)}
    for suffix in _WEIGHTS:
        if weights := {path for path in paths if path.endswith(suffix) and is_weight(path)}:
            return {path for path in chosen if not is_weight(path)} | _once(weights, paths)
    return chosen


def _for_an_engine(path: str) -> bool:
    parts = path.split("/")
    return not any(part.startswith(".") for part in parts) and (
        len(parts) == 1 or parts[0].lower() not in _OTHER_FORMATS
    )


def _once(weights: set[str], paths: Collection[str]) -> set[str]:
    """Mistral's repositories hold ``consolidated*.safetensors`` beside the shards: the same weights again."""
    if INDEX in paths or SINGLE in paths:
        return {path for path in weights if not path.startswith("consolidated")}
    return weights
