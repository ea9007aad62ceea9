"""Tokens of one answer in, text that is safe to send out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmservice_engine.codec.tokenizer import Tokenizer

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_CONTEXT = 4  # tokens before a text that may bear on its first one
_LONGEST_HOLD = 16  # tokens; a character takes at most 4, so what is longer is no character


class Detokenizer:
    """Decodes a growing row of tokens. The pieces together equal the text of all tokens at once.

    A token's text may depend on the token before it (a leading space) and a character may be spread over several
    tokens. So each step decodes a short window: ``_ids[_window:]``, of which ``_known`` characters are out already.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool = True, after: Sequence[int] = ()) -> None:
        """``after``: tokens before the first one, whose text is none of ours."""
        self._decode = tokenizer.decode if skip_special else tokenizer.decode_all
        self._ids = list(after[-_CONTEXT:])  # the window only: older tokens are dropped
        self._settled = len(self._ids)  # tokens of the window whose text is out
        self._known = len(self._decode(self._ids))  # characters of the window that are out

    def push(self, token: int) -> str:
        """The new text that ``token`` completes; empty while a character is incomplete."""
        self._ids.append(token)
        text = self._decode(self._ids)
        held = len(self._ids) - self._settled
        if len(text) <= self._known:
            if held >= _LONGEST_HOLD:  # a row of tokens without text: let the window not grow with it
                del self._ids[self._settled :]
            return ""
        if text.endswith(REPLACEMENT) and held < _LONGEST_HOLD:
            return ""
        new = text[self._known :]
        del self._ids[: self._settled]
        self._settled = len(self._ids)
        self._known = len(self._decode(self._ids))
        return new

    def finish(self) -> str:
        """What was held back: text of a character that the end has cut."""
        text = self._decode(self._ids)
        new = text[self._known :]
        self._ids.clear()
        self._settled = self._known = 0
        return new


class StopStrings:
    """Finds stop strings in growing text. Of what may become a stop string nothing is let out.

    The string that is complete first counts, whatever the size of the pieces in which the text arrives.
    """

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        """``include``: the stop string itself is let out too."""
        self._stops = tuple(stops)
        self._include = include
        self._held = ""
        self.hit = False

    def push(self, text: str) -> str:
        """The text that is safe to send. After a hit nothing more is."""
        if not self._stops or self.hit:
            return "" if self.hit else text
        seen = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := seen.find(stop)) >= 0]
        if found:
            self.hit, self._held = True, ""
            end, at = min(found)
            return seen[: end if self._include else at]
        keep = self._beginning_of_a_stop(seen)
        self._held = seen[len(seen) - keep :]
        return seen[: len(seen) - keep]

    def finish(self) -> str:
        """What was held back and did not become a stop string."""
        held, self._held = self._held, ""
        return held

    def _beginning_of_a_stop(self, seen: str) -> int:
        """Length of the longest end of ``seen`` with which a stop string begins."""
        longest = min(len(seen), max(map(len, self._stops)) - 1)
        for length in range(longest, 0, -1):
            end = seen[-length:]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0


@dataclass(frozen=True, slots=True)
class TextRules:
    """How an answer's tokens become its text."""

    stops: tuple[str, ...] = ()
    min_tokens: int = 0  # no stop string is looked for in what these tokens say
    include_stop: bool = False
    skip_special: bool = True
    continues: bool = (
        False  # the text goes on where the prompt's ends, whose last tokens bear on the first space
    )


PLAIN = TextRules()


class TextStream:
    """Detokenizer and stop strings of one answer."""

    def __init__(self, tokenizer: Tokenizer, rules: TextRules = PLAIN, prompt: Sequence[int] = ()) -> None:
        self.rules = rules
        self.length = 0  # characters so far, held back or not
        self._tokenizer = tokenizer
        self._detokenizer = Detokenizer(
            tokenizer, skip_special=rules.skip_special, after=prompt if rules.continues else ()
        )
        self._stops = StopStrings(rules.stops, include=rules.include_stop)
        self._free = rules.min_tokens

    @property
    def stopped(self) -> bool:
        """A stop string is complete: the answer ends here."""
        return self._stops.hit

    def push(self, token: int) -> str:
        text = self._detokenizer.push(token)
        self.length += len(text)
        self._free -= 1
        return text if self._free >= 0 else self._stops.push(text)

    def finish(self) -> str:
        """The rest, when the answer has ended otherwise than by a stop string."""
        return self._stops.push(self._detokenizer.finish()) + self._stops.finish()

    def raw(self, token: int) -> bytes:
        """A token's own bytes, which need be no text by themselves."""
        return self._tokenizer.raw(token)
