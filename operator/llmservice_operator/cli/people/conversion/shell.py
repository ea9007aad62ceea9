"""Scripts of ``sh -c``: which simple commands they hold, and their variables as Kubernetes writes them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass, field

_SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\})")
_BEFORE = frozenset({"exec", "nohup", "time", "env", "tini", "dumb-init", "--", "export"})


@dataclass(frozen=True, slots=True)
class Script:
    commands: tuple[tuple[str, ...], ...]  # each without what only introduces it
    redirections: tuple[str, ...] = ()
    variables: dict[str, str] = field(default_factory=dict)  # that it sets


def is_shell(words: list[str]) -> bool:
    """Does ``command`` and ``args`` together run a script?"""
    if not words or words[0].rpartition("/")[2] not in _SHELLS:
        return False
    return any(re.fullmatch(r"-[a-z]*c[a-z]*", word) for word in words[1:-1])


def text_of(words: list[str]) -> str:
    at = next(index for index, word in enumerate(words) if re.fullmatch(r"-[a-z]*c[a-z]*", word) and index)
    return words[at + 1] if len(words) > at + 1 else ""


def read(text: str, known: Collection[str]) -> Script:
    """``known``: names of the container's variables, which stay variables.

    Raises:
        ValueError: a quote is not closed.
    """
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars=";&|<>\n")
    lexer.whitespace, lexer.whitespace_split = " \t\r", True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if word and set(word) <= set(";&|\n"):
            commands.append([])
        else:
            commands[-1].append(word)
    variables: dict[str, str] = {}
    gone: list[str] = []
    found = tuple(
        command
        for words in commands
        if (command := _command(words, variables, known, gone)) and command[0] != "set"
    )
    return Script(found, tuple(gone), variables)


def _command(
    words: list[str], variables: dict[str, str], known: Collection[str], gone: list[str]
) -> tuple[str, ...]:
    """The words of a simple command; assignments before it go to ``variables``, redirections to ``gone``."""
    rest = list(words)
    while rest and (rest[0].rpartition("/")[2] in _BEFORE or _ASSIGNMENT.match(rest[0])):
        word = rest.pop(0)
        if _ASSIGNMENT.match(word):
            name, _, value = word.partition("=")
            variables[name] = as_kubernetes(value, {*known, *variables})
    made: list[str] = []
    while rest:
        word = rest.pop(0)
        if word and set(word) <= set("<>&"):
            if made and made[-1] in ("1", "2"):
                made.pop()
            gone += [f"{word} {target}" for target in rest[:1] if target not in ("1", "2")]
            rest[:1] = []
        else:
            made.append(as_kubernetes(word, {*known, *variables}))
    return tuple(made)


def as_kubernetes(word: str, known: Collection[str]) -> str:
    """``$NAME``, ``${NAME}`` and ``${NAME:-default}`` as ``$(NAME)``, where the container has it."""

    def replace(match: re.Match[str]) -> str:
        name, default = match[1] or match[2], match[3]
        if name in known:
            return f"$({name})"
        return default if default is not None else match[0]

    return _VARIABLE.sub(replace, word)
