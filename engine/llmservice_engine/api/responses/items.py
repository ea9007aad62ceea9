"""The items of one response, made while its text is read, and the events that tell of them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from llmservice_engine.codec.reading import CallStart, Content, Delta, Reasoning

Object = dict[str, Any]


class Items:
    """``output`` grows by one item after the other; the last one may be open."""

    def __init__(self, new_call_id: Callable[[], str]) -> None:
        self.output: list[Object] = []
        self._new_call_id = new_call_id
        self._open = False

    def take(self, delta: Delta) -> list[Object]:
        """The events of what ``delta`` adds."""
        match delta:
            case Content(text=text):
                return [*self._be("message"), self._add_text("response.output_text.delta", text)]
            case Reasoning(text=text):
                return [*self._be("reasoning"), self._add_text("response.reasoning_text.delta", text)]
            case CallStart(name=name):
                return [*self.close("completed"), self._begin(self._call(name))]
        self._last["arguments"] += delta.text
        return [self._event("response.function_call_arguments.delta", delta=delta.text)]

    def close(self, status: str) -> list[Object]:
        """End the open item, if there is one; ``status`` is completed or incomplete."""
        if not self._open:
            return []
        self._open = False
        item = self._last
        item["status"] = status
        if item["type"] == "function_call":
            told = {"arguments": item["arguments"], "name": item["name"]}
            ends = [self._event("response.function_call_arguments.done", **told)]
        else:
            part = item["content"][0]
            kind = part["type"]  # output_text or reasoning_text
            logprobs: Object = {"logprobs": []} if kind == "output_text" else {}
            ends = [
                self._event(f"response.{kind}.done", content_index=0, text=part["text"], **logprobs),
                self._event("response.content_part.done", content_index=0, part=dict(part)),
            ]
        return [*ends, self._item_event("response.output_item.done")]

    def end(self, status: str) -> list[Object]:
        """The events of the response's end. A response without a word is an empty message."""
        begun = [] if self.output else self._be("message")
        return [*begun, *self.close(status)]

    @property
    def _last(self) -> Object:
        return self.output[-1]

    def _be(self, kind: str) -> list[Object]:
        """Make sure that the open item is a message, or reasoning."""
        if self._open and self._last["type"] == kind:
            return []
        if kind == "message":
            item: Object = {"id": _id("msg"), "type": kind, "role": "assistant", "content": []}
            part: Object = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        else:
            item = {"id": _id("rs"), "type": kind, "summary": [], "content": []}
            part = {"type": "reasoning_text", "text": ""}
        events = [*self.close("completed"), self._begin(item)]
        item["content"].append(part)
        return [*events, self._event("response.content_part.added", content_index=0, part=dict(part))]

    def _call(self, name: str) -> Object:
        return {
            "id": _id("fc"),
            "type": "function_call",
            "call_id": self._new_call_id(),
            "name": name,
            "arguments": "",
        }

    def _begin(self, item: Object) -> Object:
        self.output.append(item | {"status": "in_progress"})
        self._open = True
        return self._item_event("response.output_item.added")

    def _add_text(self, kind: str, text: str) -> Object:
        self._last["content"][0]["text"] += text
        logprobs: Object = {"logprobs": []} if kind == "response.output_text.delta" else {}
        return self._event(kind, content_index=0, delta=text, **logprobs)

    def _event(self, kind: str, **told: Any) -> Object:
        return {"type": kind, "item_id": self._last["id"], "output_index": len(self.output) - 1, **told}

    def _item_event(self, kind: str) -> Object:
        item = {
            key: [dict(part) for part in value] if key == "content" else value
            for key, value in self._last.items()
        }
        return {"type": kind, "output_index": len(self.output) - 1, "item": item}


def _id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"
