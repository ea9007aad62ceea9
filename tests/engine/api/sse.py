"""Server-sent events, read strictly."""

from __future__ import annotations

import json
from typing import Any

import httpx


def events(http: httpx.Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """All events of a streamed answer. Checks that each is one ``data:`` line and that the last is ``[DONE]``."""
    with http.stream("POST", path, json=body | {"stream": True}) as response:
        text = response.read().decode()
        assert response.status_code == 200, text
        assert response.headers["content-type"].startswith("text/event-stream")
    *found, last, empty = text.split("\n\n")
    assert (last, empty) == ("data: [DONE]", "")
    assert all(event.startswith("data: ") and "\n" not in event for event in found)
    return [json.loads(event.removeprefix("data: ")) for event in found]


def chat_text(chunks: list[dict[str, Any]]) -> str:
    return "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk["choices"])


def completion_text(chunks: list[dict[str, Any]]) -> str:
    return "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])
