"""A tokenizer that does not belong to the weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx

from tests.engine.api.server_process import launched
from tests.engine.models import families


def test_a_tokenizer_larger_than_the_embedding_is_warned_of_and_its_ids_are_refused(
    model_folder: Path, tmp_path: Path
) -> None:
    # Even the end of text lies beyond.
    beyond = families.Family("llama", {"eos_token_id": 49_151, "bos_token_id": 49_150})
    folder = families.write(beyond, tmp_path / "model")
    shutil.copy(model_folder / "tokenizer.json", folder)
    arguments = [str(folder), "--served-model-name", "m", "--dtype", "float32"]
    with launched(arguments, tmp_path) as server:
        server.wait_until("/ready", 200)
        assert "the tokenizer knows 49152 ids, the model 96" in server.log
        body = {"model": "m", "prompt": "Hello", "max_tokens": 2}
        refused = httpx.post(f"{server.url}/v1/completions", json=body)
        assert refused.status_code == 400
        assert "is out of range: the model knows 0 to 95" in refused.json()["error"]["message"]
        served = httpx.post(f"{server.url}/v1/completions", json={**body, "prompt": [5, 6, 7]}, timeout=60)
        assert served.status_code == 200
