"""Tokens to text that is safe to send."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llmservice_engine.codec import folder
from llmservice_engine.codec.detokenizer import REPLACEMENT, StopStrings, TextRules, TextStream
from llmservice_engine.codec.tokenizer import Tokenizer

from e2e import model

TOKENIZER = Tokenizer.load(folder.read(model.ensure()))
WORLD = "Žluťoučký kůň 👩‍🚀 日本語 naïve 🇨🇿, Ω≈ç√∫"


def stream(ids: tuple[int, ...] | list[int], stops: tuple[str, ...] = ()) -> list[str]:
    """The pieces that go out, token by token, up to the end or a stop string."""
    text = TextStream(TOKENIZER, TextRules(stops))
    pieces = []
    for token in ids:
        pieces.append(text.push(token))
        if text.stopped:
            return pieces
    return [*pieces, text.finish()]


def test_a_character_spread_over_tokens_is_held_until_it_is_whole() -> None:
    """A14"""
    pieces = stream(TOKENIZER.encode(WORLD, add_special_tokens=False))
    assert not [piece for piece in pieces if REPLACEMENT in piece]
    assert "".join(pieces) == WORLD


def test_only_a_cut_leaves_a_replacement_character_and_only_in_the_last_piece() -> None:
    """A14"""
    *pieces, last = stream(TOKENIZER.encode("ů", add_special_tokens=False)[:-1])
    assert REPLACEMENT in last
    assert not any(REPLACEMENT in piece for piece in pieces)


@given(ids=st.lists(st.one_of(st.integers(3, 49151), st.integers(17, 272)), max_size=60))
@settings(max_examples=200)
def test_pieces_together_equal_the_whole_text_for_any_tokens(ids: list[int]) -> None:
    assert "".join(stream(ids)) == TOKENIZER.decode(ids)


def test_special_tokens_leave_no_text() -> None:
    """A19"""
    ids = TOKENIZER.encode("one<|im_end|>two<|im_start|>", add_special_tokens=False)
    assert "".join(stream(ids)) == "onetwo"


def test_a_long_row_of_tokens_without_text_does_not_hide_the_text_after_it() -> None:
    ids = [2] * 100 + list(TOKENIZER.encode("after", add_special_tokens=False))
    assert "".join(stream(ids)) == "after"


def test_no_part_of_a_stop_string_is_sent() -> None:
    """A11"""
    pieces = stream(TOKENIZER.encode("A B C DEFGHIJ K", add_special_tokens=False), ("DEFGHIJ",))
    assert "".join(pieces) == "A B C "


def test_a_beginning_that_does_not_become_a_stop_string_is_sent_late_but_whole() -> None:
    """A11"""
    assert (
        "".join(stream(TOKENIZER.encode("A DEFG then", add_special_tokens=False), ("DEFGHIJ",)))
        == "A DEFG then"
    )
    assert "".join(stream(TOKENIZER.encode("A DEFG", add_special_tokens=False), ("DEFGHIJ",))) == "A DEFG"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_the_stop_string_that_is_complete_first_counts_whatever_the_size_of_the_pieces(size: int) -> None:
    """A11: 'cd' is complete before 'bcdef', though it begins later."""
    stops = StopStrings(("bcdef", "cd"))
    text = "abcdefg"
    sent = "".join(stops.push(text[at : at + size]) for at in range(0, len(text), size))
    assert (sent, stops.hit) == ("ab", True) if size < 5 else stops.hit


@given(
    text=st.text(alphabet="ab", max_size=30),
    stops=st.lists(st.text(alphabet="ab", min_size=1, max_size=5), min_size=1, max_size=4),
    size=st.integers(1, 8),
)
@settings(max_examples=300)
def test_what_is_sent_does_not_depend_on_how_the_text_arrives(text: str, stops: list[str], size: int) -> None:
    """A11: stream and non-stream give the same text."""

    def sent(step: int) -> tuple[str, bool]:
        finder = StopStrings(stops)
        out = "".join(finder.push(text[at : at + step]) for at in range(0, len(text), step))
        return out + finder.finish(), finder.hit

    assert sent(size) == sent(1)
    assert not any(stop in sent(size)[0] for stop in stops)
