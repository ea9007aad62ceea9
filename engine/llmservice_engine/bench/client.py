"""One streamed completion, timed as a client sees it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from llmservice_engine.bench.scenarios import Ask


@dataclass(frozen=True, slots=True)
class Outcome:
    """Times in monotonic seconds. ``texts_at`` has one entry an event with text."""

    begun_at: float
    ended_at: float
    texts_at: tuple[float, ...]
    output_tokens: int
    error: str | None = None


class Client:
    """Speaks to ``/v1/completions``: token-id prompts, or the ids as words where the server refuses those."""

    def __init__(self, session: aiohttp.ClientSession, base_url: str, model: str) -> None:
        self._session = session
        self._url = base_url.rstrip("/") + "/v1/completions"
        self._model = model
        self._token_ids = True

    async def find_prompt_form(self) -> None:
        """Ask for one token; where ids are refused, send text from now on."""
        outcome = await self.ask(Ask((1_000, 1_001), 1))
        if outcome.error is not None:
            self._token_ids = False
            outcome = await self.ask(Ask((1_000, 1_001), 1))
        if outcome.error is not None:
            raise RuntimeError(f"{self._url} does not answer: {outcome.error}")

    async def ask(self, ask: Ask) -> Outcome:
        body = {
            "model": self._model,
            "prompt": ask.prompt
            if self._token_ids
            else " ".join(map(str, ask.prompt[: len(ask.prompt) // 2])),
            "max_tokens": ask.output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        begun = time.monotonic()
        texts_at: list[float] = []
        tokens = 0
        error: str | None = None
        try:
            async with self._session.post(self._url, json=body) as response:
                if response.status != 200:
                    error = f"HTTP {response.status}: {(await response.text())[:200]}"
                async for line in response.content:
                    event = _event(line)
                    if event is None:
                        continue
                    error = error or _error(event)
                    if any(choice.get("text") for choice in event.get("choices", ())):
                        texts_at.append(time.monotonic())
                    tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
        except (aiohttp.ClientError, TimeoutError) as failure:
            error = f"{type(failure).__name__}: {failure}"
        if error is None and not tokens:
            tokens = len(texts_at)  # a server without usage chunks: one token an event
        return Outcome(begun, time.monotonic(), tuple(texts_at), tokens, error)


def _event(line: bytes) -> dict[str, Any] | None:
    if not line.startswith(b"data:"):
        return None
    data = line[5:].strip()
    if data == b"[DONE]":
        return None
    found = msgspec.json.decode(data)
    return found if isinstance(found, dict) else None


def _error(event: dict[str, Any]) -> str | None:
    return str(event["error"])[:200] if event.get("error") else None
