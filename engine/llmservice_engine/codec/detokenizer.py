"""Tokens of one answer in, text that is safe to send out."""

from __future__ import annotations

from collections.abc import Sequence

from llmservice_engine.codec.tokenizer import Tokenizer

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_LONGEST_HOLD = 16  # tokens; a character takes at most 4, so what is longer is no character


class Detokenizer:
    """Decodes a growing row of tokens. The pieces together equal the text of all tokens at once.

    A token's text may depend on the token before it (a leading space) and a character may be spread over several
    tokens. So each step decodes a short window: ``_ids[_window:]``, of which ``_known`` characters are out already.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []  # the window only: older tokens are dropped
        self._settled = 0  # tokens of the window whose text is out
        self._known = 0  # characters of the window that are out

    def push(self, token: int) -> str:
        """The new text that ``token`` completes; empty while a character is incomplete."""
        self._ids.append(token)
        text = self._tokenizer.decode(self._ids)
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
        self._known = len(self._tokenizer.decode(self._ids))
        return new

    def finish(self) -> str:
        """What was held back: text of a character that the end has cut."""
        text = self._tokenizer.decode(self._ids)
        new = text[self._known :]
        self._ids.clear()
        self._settled = self._known = 0
        return new


class StopStrings:
    """Finds stop strings in growing text. Of what may become a stop string nothing is let out.

    The string that is complete first counts, whatever the size of the pieces in which the text arrives.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
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
            return seen[: min(found)[1]]
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


class TextStream:
    """Detokenizer and stop strings of one answer."""

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str] = ()) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopStrings(stops)

    @property
    def stopped(self) -> bool:
        """A stop string is complete: the answer ends here."""
        return self._stops.hit

    def push(self, token: int) -> str:
        return self._stops.push(self._detokenizer.push(token))

    def finish(self) -> str:
        """The rest, when the answer has ended otherwise than by a stop string."""
        return self._stops.push(self._detokenizer.finish()) + self._stops.finish()
