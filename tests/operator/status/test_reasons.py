"""No reason without a row that says what to do."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import llmservice_operator
import pytest
from llmservice_engine.core import errors as engine_errors
from llmservice_operator.api import conditions
from llmservice_operator.fetch import errors as fetch_errors
from llmservice_operator.status import reasons

CODE = Path(llmservice_operator.__file__).parent
ROOT = Path(__file__).resolve().parents[3]
# Where a reason stands in a call.
POSITIONS = {"Stage": 1, "Verdict": 1, "Failure": 1, "_failure": 1, "Cause": 0, "News": 1, "set": 2}
# Literals that look like a reason where one may stand, and are something else.
OTHER = {
    "Always", "Bound", "Complete", "ContainerCreating", "ErrImagePull", "Failed", "False", "Job", "Killing", "Lost",
    "Managed", "Never", "NodeNotReady", "OnFailure", "Pending", "PodInitializing", "Progressing", "ReadWriteMany",
    "ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "Secret", "Spec", "Succeeded", "True", "Unhealthy",
    "Created", "Pulled", "Pulling", "Started",
    "Completed", "Error",
}  # fmt: skip
CAMEL = re.compile(r"[A-Z][a-z]+[A-Za-z0-9]*")


def literals(node: ast.AST | None) -> Iterator[str]:
    """The strings that an expression may come to."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=body, orelse=other):
            yield from literals(body)
            yield from literals(other)
        case ast.BoolOp(values=values):
            for value in values:
                yield from literals(value)
        case ast.Tuple(elts=[first, *_]) | ast.Call(args=[_, first]):
            yield from literals(first)


def in_reason_position(tree: ast.AST) -> Iterator[str]:
    """Arguments, what is assigned to ``reason``, what functions return, tuples (reason, message), sets of codes."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="frozenset"), args=[ast.Set(elts=values)]):
                for value in values:
                    yield from literals(value)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
                where = POSITIONS.get(name)
                if where is not None and where < len(args):
                    yield from literals(args[where])
            case ast.Assign(targets=[ast.Name(id="reason") | ast.Tuple(elts=[ast.Name(id="reason"), *_])]):
                yield from literals(node.value)
            case ast.Return(value=value):
                yield from literals(value)
            case ast.Tuple(elts=[ast.Constant(value=str(text)), ast.JoinedStr()]):
                yield text
            case ast.Tuple(elts=[ast.Call(), ast.Constant(value=str(text))]):
                yield text  # a pattern, and the reason that it stands for


def used() -> dict[str, str]:
    """Reason → the file that uses it."""
    found = {}
    for path in sorted([*CODE.glob("status/*.py"), *CODE.glob("desired/*.py")]):
        if path.name != "reasons.py":
            for text in in_reason_position(ast.parse(path.read_text())):
                if CAMEL.fullmatch(text) and text not in OTHER:
                    found[text] = f"{path.parent.name}/{path.name}"
    return found


def test_every_reason_that_the_operator_says_is_in_the_catalogue() -> None:
    missing = {reason: where for reason, where in used().items() if reasons.of(reason) is None}
    assert not missing, "add a row to status/reasons.py"


def test_the_search_finds_reasons_in_all_their_places() -> None:
    known = {
        "ClaimNotFound": "an argument", "FailedCreate": "after an or", "InsufficientMemory": "of an if",
        "ExpansionRefused": "assigned", "Copied": "assigned as a tuple", "InvalidTemplate": "returned",
        "ClaimShrinks": "a tuple", "SecretNotFound": "with a pattern", "SharedMemoryTooSmall": "in a set",
    }  # fmt: skip
    assert known.keys() <= used().keys()


@pytest.mark.parametrize("base", [fetch_errors.FetchError, engine_errors.StartupError])
def test_every_code_that_a_report_may_carry_is_in_the_catalogue(base: type[Exception]) -> None:
    module = inspect.getmodule(base)
    found = [
        name
        for name, one in vars(module).items()
        if inspect.isclass(one) and issubclass(one, base) and one is not base
    ]
    assert found
    assert [name for name in found if reasons.of(name) is None] == []


def test_no_reason_is_explained_twice() -> None:
    named = [name for group in reasons.GROUPS for row in group.rows for name in row.names]
    assert sorted(named) == sorted(set(named))


def test_every_reason_is_one_that_a_condition_can_carry() -> None:
    named = [name for group in reasons.GROUPS for row in group.rows for name in row.names]
    assert [conditions.as_reason(name) for name in named] == named


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "reference" / "reasons.md").read_text() == reasons.page()


def test_the_guide_leads_to_the_page() -> None:
    assert "(../reference/reasons.md)" in (ROOT / "docs" / "guides" / "status.md").read_text()
