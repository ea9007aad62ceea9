"""A GGUF file is served from the command line, as any model."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest

from e2e import model
from tests.engine.api.server_process import launched


@pytest.mark.full
def test_a_gguf_file_is_served_and_answers_a_chat(tmp_path: Path) -> None:
    arguments = [str(model.gguf()), "--served-model-name", "smollm2", "--quantization", "gguf"]
    with launched(arguments, tmp_path, environment={"HF_HUB_OFFLINE": "1"}) as server:
        server.wait_until("/ready", 200)
        sdk = openai.OpenAI(base_url=server.url + "/v1", api_key="not-needed", max_retries=0)
        answer = sdk.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": model.QUESTION}],
            temperature=0,
            max_tokens=20,
        )
        assert answer.choices[0].message.content == model.ANSWER
        assert answer.choices[0].finish_reason == "stop"
        server.terminate()
        assert server.exit_code() == 0
