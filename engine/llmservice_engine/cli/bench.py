"""``llmservice-engine bench --base-url URL --scenario NAME``."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from llmservice_engine.bench import run as bench
from llmservice_engine.bench import table
from llmservice_engine.bench.scenarios import SCENARIOS


def run(arguments: Sequence[str]) -> int:
    given = _parser().parse_args(arguments)
    names = list(SCENARIOS) if given.scenario == "all" else [given.scenario]
    try:
        summaries = asyncio.run(bench.run(given.base_url, given.model, names, given.seed))
    except RuntimeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    text = json.dumps([summary.as_dict() for summary in summaries], indent=2)
    if given.json == "-":
        print(text)
    else:
        table.show(summaries, Console())
        if given.json:
            Path(given.json).write_text(text + "\n", encoding="utf-8")
    return 1 if any(summary.errors for summary in summaries) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llmservice-engine bench",
        description="Measure any OpenAI-compatible server with one of four fixed loads. Exit code 1: a request failed.",
    )
    parser.add_argument(
        "--base-url", default="http://127.0.0.1:8000", help="server's address [default: %(default)s]"
    )
    parser.add_argument(
        "--scenario", choices=[*SCENARIOS, "all"], default="all", help="which load [default: %(default)s]"
    )
    parser.add_argument("--model", help="model name to ask for [default: the first of /v1/models]")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON too; - prints only them")
    parser.add_argument(
        "--seed", type=int, default=0, help="another seed, other prompts [default: %(default)s]"
    )
    return parser
