"""Ask a model one question and stream its answer: `python examples/chat.py "What is the capital of France?"`."""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx


def stream(client: httpx.Client, model: str, question: str, max_tokens: int) -> Iterator[dict[str, Any]]:
    """The chunks of a streamed chat completion, as they arrive."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            raise SystemExit(f"the server answers {response.status_code}: {response.read().decode()}")
        for line in response.iter_lines():
            if line.startswith("data: ") and line != "data: [DONE]":
                chunk = json.loads(line[len("data: ") :])
                if "error" in chunk:
                    raise SystemExit(f"the answer broke off: {chunk['error']['message']}")
                yield chunk


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question")
    parser.add_argument("--base-url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", help="default: the first that the server lists")
    parser.add_argument("--max-tokens", type=int, default=256)
    given = parser.parse_args()
    with httpx.Client(base_url=given.base_url, timeout=httpx.Timeout(120, connect=10)) as client:
        model = given.model or client.get("/v1/models").raise_for_status().json()["data"][0]["id"]
        begun, first, tokens = time.perf_counter(), 0.0, 0
        for chunk in stream(client, model, given.question, given.max_tokens):
            for choice in chunk["choices"]:
                if text := choice["delta"].get("content"):
                    first = first or time.perf_counter()
                    print(text, end="", flush=True)
            tokens = (chunk.get("usage") or {}).get("completion_tokens", tokens)
        ended = time.perf_counter()
    rate = (tokens - 1) / (ended - first) if tokens > 1 else 0.0
    print(f"\n\ntime to first token {(first - begun) * 1000:.0f} ms, {tokens} tokens, {rate:.1f} tokens/s")


if __name__ == "__main__":
    try:
        main()
    except httpx.HTTPError as error:
        sys.exit(f"cannot reach the server: {error}")
