"""A chat's text as the fields of a message and of its deltas: content, reasoning, tool calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from llmservice_engine.api.tool_use import Mode
from llmservice_engine.codec.reading import CallStart, Content, Delta, Plain, Reader, Reasoning
from llmservice_engine.codec.tools.interface import call_id
from llmservice_engine.core.outputs import FinishReason

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """How one conversation's answers are read and told."""

    reader: Callable[[], Reader] = Plain
    mode: Mode = Mode.OFF
    new_call_id: Callable[[], str] = call_id
    reasons: bool = False  # the model marks its reasoning
    include_reasoning: bool = True


class Answer:
    """One choice, piece by piece."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._reader = reading.reader()
        self._called = False

    def read(self, text: str, *, last: bool) -> Iterator[Delta]:
        """What ``text`` adds."""
        found = self._reader.push(text)
        if last:
            found += self._reader.finish()
        for delta in found:
            self._called |= isinstance(delta, CallStart)
            if not isinstance(delta, Reasoning) or self._reading.include_reasoning:
                yield delta

    def deltas(self, text: str, *, last: bool) -> list[Object]:
        """The same as a stream's delta objects."""
        return [self._delta(delta) for delta in self.read(text, last=last)]

    def message(self, text: str) -> Object:
        """A whole answer's message. Content is null where there are only calls."""
        content, reasoning = "", ""
        calls: list[Object] = []
        for delta in self.read(text, last=True):
            match delta:
                case Content(text=more):
                    content += more
                case Reasoning(text=more):
                    reasoning += more
                case CallStart(name=name):
                    calls.append(self._call(name))
                case _:
                    calls[delta.index]["function"]["arguments"] += delta.text
        message: Object = {"role": "assistant", "content": None if calls and not content else content}
        message["refusal"] = None
        if self._reading.reasons:
            message |= _reasoning(reasoning or None)
        return message | ({"tool_calls": calls} if calls else {})

    def finish_reason(self, engines: FinishReason | None) -> str | None:
        """``tool_calls`` where the model was free to call and did; a named function's answer just stops."""
        called = self._called and self._reading.mode is not Mode.NAMED
        return "tool_calls" if called and engines is FinishReason.STOP else engines

    def _delta(self, delta: Delta) -> Object:
        match delta:
            case Content(text=text):
                return {"content": text}
            case Reasoning(text=text):
                return _reasoning(text)
            case CallStart(index=index, name=name):
                return {"tool_calls": [{"index": index} | self._call(name)]}
        return {"tool_calls": [{"index": delta.index, "function": {"arguments": delta.text}}]}

    def _call(self, name: str) -> Object:
        """A call whose arguments follow."""
        function = {"name": name, "arguments": ""}
        return {"id": self._reading.new_call_id(), "type": "function", "function": function}


def _reasoning(text: str | None) -> Object:
    """Under DeepSeek's name and under vLLM's newer one."""
    return {"reasoning_content": text, "reasoning": text}
