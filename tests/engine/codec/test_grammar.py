"""Grammars over the real model's tokens: what they allow, what is refused, what hostile ones cost."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any, Literal

import jsonschema
import pytest
from llmservice_engine.codec.codec import Codec
from llmservice_engine.codec.errors import GrammarError
from llmservice_engine.codec.grammar import MAX_BYTES, Grammars, GrammarText
from llmservice_engine.codec.tokenizer import Tokenizer
from llmservice_engine.core.constraint import Matcher

Kind = Literal["json_schema", "regex", "choice", "grammar"]


def compiled(codec: Codec, kind: Kind, text: str) -> Matcher:
    return codec.grammars.compile(GrammarText(kind, text, "guided")).start()


def allowed(matcher: Matcher) -> list[int]:
    bits = matcher.mask()
    return [token for token in range(len(bits) * 8) if bits[token // 8] >> (token % 8) & 1]


def spelt(codec: Codec, matcher: Matcher, seed: int, longest: int = 400) -> str:
    """Any text that the grammar allows, to its end."""
    chance, tokens = random.Random(seed), []
    while not matcher.finished and len(tokens) < longest:
        tokens.append(chance.choice(allowed(matcher)))
        matcher.advance(tokens[-1])
    return codec.raw_text([token for token in tokens if token not in codec.end_ids])


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["red", "green", 7, None]},
        {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"enum": [1, 2]}}, "required": ["b"],
         "additionalProperties": False},
        {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3},
        {"oneOf": [{"const": "x"}, {"type": "object", "properties": {"kind": {"const": "y"}}, "required": ["kind"],
                                    "additionalProperties": False}]},
    ],
)  # fmt: skip
@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_schema_allows_is_valid(codec: Codec, schema: dict[str, Any], seed: int) -> None:
    matcher = compiled(
        codec, "json_schema", json.dumps({**schema, "x-guidance": {"whitespace_flexible": False}})
    )
    text = spelt(codec, matcher, seed)
    jsonschema.validate(json.loads(text), schema)


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("choice", '["no", "not", "nothing", "\\"ě\\n\\\\"]', {"no", "not", "nothing", '"ě\n\\'}),
        ("regex", "[ab]c{2}", {"acc", "bcc"}),
        ("grammar", 'start: "x" ("y" | "z")', {"xy", "xz"}),
        ("grammar", 'root ::= "x" ("y" | "z")', {"xy", "xz"}),
    ],
)
def test_choices_expressions_and_both_kinds_of_grammar(
    codec: Codec, kind: Kind, text: str, words: set[str]
) -> None:
    assert {spelt(codec, compiled(codec, kind, text), seed) for seed in range(80)} == words


def test_there_may_be_many_choices(codec: Codec) -> None:
    many = [str(number) for number in range(20_000)]
    assert spelt(codec, compiled(codec, "choice", json.dumps(many)), seed=1) in many


def test_an_end_token_may_come_only_where_the_text_is_whole(codec: Codec) -> None:
    matcher = compiled(codec, "regex", "a+")
    assert not codec.end_ids & set(allowed(matcher))
    (a,) = codec.raw_tokens("a", add_special_tokens=False)
    matcher.advance(a)
    assert codec.end_ids & set(allowed(matcher))
    matcher.advance(min(codec.end_ids))
    assert matcher.finished


def test_sequences_of_one_grammar_do_not_see_each_other_and_tokens_can_be_taken_back(codec: Codec) -> None:
    grammar = codec.grammars.compile(GrammarText("choice", '["ab", "cd"]', "guided"))
    one, other = grammar.start(), grammar.start()
    before = one.mask()
    one.advance(codec.raw_tokens("a", add_special_tokens=False)[0])
    assert other.mask() == before != one.mask()
    one.rollback(1)
    assert one.mask() == before


def test_a_grammar_is_compiled_once_while_it_is_in_use(codec: Codec) -> None:
    grammar = GrammarText("regex", "once[0-9]", "guided_regex")
    assert codec.grammars.compile(grammar) is codec.grammars.compile(grammar)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json_schema", '{"properties": {"foo": "bar"}}'),
        ("json_schema", '{"type": "wolf"}'),
        ("json_schema", '{"not": {"type": "string"}}'),
        ("json_schema", '{"$ref": "http://example.com/schema.json"}'),
        ("json_schema", '{"$ref": "#"}'),
        ("json_schema", '{"type": "object", "properties": {"a": false}, "required": ["a"]}'),
        ("json_schema", json.dumps({"allOf": [{"anyOf": [{"properties": {f"{i}{j}": {}}} for j in range(9)]}
                                              for i in range(9)]})),
        ("json_schema", '{"items":' * 500 + "{}" + "}" * 500),
        ("regex", "("),
        ("regex", "(?=a)b"),
        ("grammar", "start: nowhere"),
        ("grammar", "what is this"),
        ("regex", "x" * (MAX_BYTES + 1)),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_by_its_field(codec: Codec, kind: Kind, text: str) -> None:
    """A43: and nothing else happens."""
    with pytest.raises(GrammarError, match=r"guided ") as refused:
        compiled(codec, kind, text)
    assert refused.value.param == "guided"
    assert len(refused.value.message) < 500
    assert compiled(codec, "choice", '["x"]').mask()


def test_what_takes_too_long_to_compile_is_refused_with_the_limit(tokenizer: Tokenizer) -> None:
    hasty = Grammars(tokenizer.for_grammars, seconds=1e-9)
    with pytest.raises(GrammarError, match=r"took more than 1e-09 s to compile"):
        hasty.compile(GrammarText("regex", "(a{1,100}b{1,100}){1,100}", "guided_regex"))


def test_only_the_last_used_grammars_are_kept(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmservice_engine.codec.grammar.CACHED", 2)
    grammars = Grammars(tokenizer.for_grammars)
    first, second, third = (GrammarText("regex", f"kept{n}", "guided") for n in range(3))
    kept = [grammars.compile(one) for one in (first, second, first, third)]
    again = [grammars.compile(one) for one in (third, first)]
    assert again == [kept[3], kept[0]]
    assert grammars.compile(second) is not kept[1]


def test_bits_beyond_the_vocabulary_are_not_set(codec: Codec) -> None:
    assert max(itertools.chain(allowed(compiled(codec, "regex", ".*")))) < codec.vocabulary
