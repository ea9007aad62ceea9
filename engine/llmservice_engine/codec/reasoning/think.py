"""``<think>…</think>answer``. White space at the tags belongs to neither side."""

from __future__ import annotations

from llmservice_engine.codec.reading import Ended, Machine, Next, NotACall, Text, until

OPEN, CLOSE = "<think>", "</think>"
MARKERS = (OPEN, CLOSE)


def begins_open(name: str, prompt: str) -> bool:
    """Whether an answer to ``prompt`` begins with reasoning before it has opened a tag.

    ``qwen3``: where the prompt's end has opened it. ``deepseek_r1``: also where it has not, since the model always
    reasons; but never where the prompt's end has closed it (reasoning is switched off so).
    """
    end = prompt.rstrip()
    return end.endswith(OPEN) or (name == "deepseek_r1" and not end.endswith(CLOSE))


def machine(text: Text, *, opened: bool) -> Machine:
    """Reads up to the end of the reasoning; all after it is content."""
    try:
        opened = (yield from _opens(text)) or opened
        if not opened:
            return
        if not text.held:
            yield from text.skip_spaces()
            text.give_back()
            text.held = ""
        text.held = text.held.lstrip()
        yield from until(text, CLOSE, say=text.reasoning)
    except Ended:
        if opened:
            text.reasoning(text.held.rstrip())
            text.held = ""
        raise
    text.held = ""
    yield from text.skip_spaces()
    text.give_back()
    text.held = ""


def _opens(text: Text) -> Next[bool]:
    """Whether the answer opens the tag itself. What it begins with instead is held."""
    try:
        if (yield from text.skip_spaces()) != OPEN[0]:
            raise NotACall
        yield from text.expect(OPEN[1:])
    except NotACall:
        return False
    text.held = ""
    return True
