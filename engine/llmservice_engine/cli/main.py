"""The command line's first word."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from llmservice_engine.cli import bench, serve

_COMMANDS: Mapping[str, tuple[Callable[[Sequence[str]], int], str]] = {
    "serve": (serve.run, "serve a model over an OpenAI-compatible API"),
    "bench": (bench.run, "measure any OpenAI-compatible server"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code; ``serve`` ends the process itself."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] in _COMMANDS:
        return _COMMANDS[words[0]][0](words[1:])
    usage = "usage: llmservice-engine COMMAND …\n\n" + "".join(
        f"  {name:8} {about}\n" for name, (_, about) in _COMMANDS.items()
    )
    if words and words[0] in ("-h", "--help", "help"):
        print(usage + "\n`llmservice-engine COMMAND --help` lists a command's flags.")
        return 0
    print((f"unknown command {words[0]!r}\n" if words else "") + usage, file=sys.stderr)
    return 2
