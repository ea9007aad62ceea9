"""An answer's text, read while it grows: what is reasoning, what is content, what calls a tool.

A format is a generator that asks for one character after the other (:meth:`Text.next`), so it reads like a grammar
and cannot see how the text was cut into pieces. What it has read but not understood yet is held back; where it turns
out to be no call (:class:`NotACall`), or the text ends, all of that becomes content.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Protocol, TypeVar

END = ""  # sent in place of a character when no more will come


@dataclass(frozen=True, slots=True)
class Content:
    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """The ``index``-th call of this answer begins; its arguments follow."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of a call's arguments, as JSON text; the pieces together are the model's own words."""

    index: int
    text: str


Delta = Content | Reasoning | CallStart | CallArguments


class Reader(Protocol):
    """Reads one answer. The deltas of any cut of a text say the same."""

    def push(self, text: str) -> list[Delta]: ...
    def finish(self) -> list[Delta]: ...


class NotACall(Exception):
    """What is held back is plain text."""


class Ended(Exception):
    """The text has ended; what is held back is what the format has not understood."""


Found = TypeVar("Found")
Machine = Generator[None, str, None]
Next = Generator[None, str, Found]  # a part of a machine that finds something


class Text:
    """What a format reads from, and says its findings to."""

    def __init__(self) -> None:
        self.held = ""  # read, not understood yet
        self._deltas: list[Delta] = []
        self._again = ""  # a character that was given back
        self._calls = 0

    # Reading

    def next(self) -> Next[str]:
        """The next character, which is held back from now on."""
        character, self._again = self._again, ""
        if not character:
            character = yield
            if character == END:
                raise Ended
        self.held += character
        return character

    def give_back(self) -> None:
        """Let the next :meth:`next` return the last character once more."""
        self._again, self.held = self.held[-1], self.held[:-1]

    def skip_spaces(self) -> Next[str]:
        """The first character that is no white space."""
        while (character := (yield from self.next())).isspace():
            pass
        return character

    def expect(self, words: str) -> Machine:
        for wanted in words:
            if (yield from self.next()) != wanted:
                raise NotACall

    # Saying

    def content(self, text: str) -> None:
        if text:
            self._deltas.append(Content(text))

    def reasoning(self, text: str) -> None:
        if text:
            self._deltas.append(Reasoning(text))

    def start_call(self, name: str) -> None:
        self.held = ""
        self._deltas.append(CallStart(self._calls, name))
        self._calls += 1

    def arguments(self, text: str) -> None:
        self.held = ""
        self._deltas.append(CallArguments(self._calls - 1, text))

    def release(self) -> None:
        """What is held back is content after all."""
        self.content(self.held)
        self.held = ""

    def leave(self) -> None:
        """The format reads no further. Of white space after a call nothing is left."""
        rest = self.held + self._again
        self.content("" if self._calls and rest.isspace() else rest)
        self.held = self._again = ""

    def drain(self) -> list[Delta]:
        """All that was said since the last time, neighbours of one kind as one."""
        merged: list[Delta] = []
        for delta in self._deltas:
            last = merged[-1] if merged else None
            if isinstance(delta, CallArguments) and isinstance(last, CallArguments):
                if delta.index == last.index:
                    merged[-1] = CallArguments(delta.index, last.text + delta.text)
                    continue
            elif isinstance(delta, Content) and isinstance(last, Content):
                merged[-1] = Content(last.text + delta.text)
                continue
            elif isinstance(delta, Reasoning) and isinstance(last, Reasoning):
                merged[-1] = Reasoning(last.text + delta.text)
                continue
            merged.append(delta)
        self._deltas = []
        return merged


class MachineReader:
    """Drives a format's generator."""

    def __init__(self, machine: Callable[[Text], Machine]) -> None:
        self._text = Text()
        self._machine = machine(self._text)
        self._running = True
        self._send(None)

    def push(self, text: str) -> list[Delta]:
        for at, character in enumerate(text):
            if not self._running:
                self._text.content(text[at:])
                break
            self._send(character)
        return self._text.drain()

    def finish(self) -> list[Delta]:
        if self._running:
            self._send(END)
        return self._text.drain()

    def _send(self, character: str | None) -> None:
        try:
            if character is None:
                next(self._machine)
            else:
                self._machine.send(character)
        except (StopIteration, NotACall, Ended):
            self._running = False
            self._text.leave()


class Plain:
    """All of it is content."""

    def push(self, text: str) -> list[Delta]:
        return [Content(text)] if text else []

    def finish(self) -> list[Delta]:
        return []


def until(text: Text, *markers: str, say: Callable[[str], None] | None = None) -> Next[str]:
    """Pass text on up to the first of ``markers``, which this returns, held back still. ``say``: content by default.

    White space before a marker is held with it, so that a call leaves no empty lines behind.
    """
    say = say or text.content
    first = {marker[0] for marker in markers}
    while True:
        character = yield from text.next()
        if len(text.held) == 1 and character not in first and not character.isspace():
            passed, found = character, None
        elif (found := next((m for m in markers if text.held.endswith(m)), None)) is not None:
            passed = text.held.removesuffix(found).rstrip()
        else:
            keep = max(_beginning(text.held, marker) for marker in markers)
            passed, found = text.held[: len(text.held) - keep].rstrip(), None
        text.held = text.held[len(passed) :]
        if passed:
            say(passed)
        if found is not None:
            return found


def _beginning(held: str, marker: str) -> int:
    """Length of the longest end of ``held`` with which ``marker`` begins."""
    longest = min(len(held), len(marker) - 1)
    return next((n for n in range(longest, 0, -1) if held.endswith(marker[:n])), 0)


class Chain:
    """One reader's content is read by the next one."""

    def __init__(self, first: Reader, then: Reader) -> None:
        self._first = first
        self._then = then

    def push(self, text: str) -> list[Delta]:
        return self._through(self._first.push(text))

    def finish(self) -> list[Delta]:
        return [*self._through(self._first.finish()), *self._then.finish()]

    def _through(self, deltas: list[Delta]) -> list[Delta]:
        found: list[Delta] = []
        for delta in deltas:
            found += self._then.push(delta.text) if isinstance(delta, Content) else [delta]
        return found


class OneCall:
    """Of several calls only the first is said."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def push(self, text: str) -> list[Delta]:
        return _first_call(self._reader.push(text))

    def finish(self) -> list[Delta]:
        return _first_call(self._reader.finish())


def _first_call(deltas: list[Delta]) -> list[Delta]:
    return [one for one in deltas if not isinstance(one, CallStart | CallArguments) or one.index == 0]
