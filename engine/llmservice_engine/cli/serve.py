"""``llmservice-engine serve MODEL [flags]``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from llmservice_planner import settings as flags
from llmservice_planner.settings import EngineSettings

from llmservice_engine.api import report, server

if TYPE_CHECKING:
    from llmservice_engine.engine import Engine, EngineLoop


def run(arguments: Sequence[str]) -> int:
    if {"-h", "--help"} & set(arguments):
        _parser().print_help()
        return 0
    # A container's first process has no default for SIGTERM: until the server has its own, stop at once.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    try:
        parsed = flags.parse_args(arguments)
        _refuse_what_is_not_served(parsed)
    except flags.SettingsError as error:
        report.write(error)
        return report.exit_code(error)
    code = server.serve(parsed, _load_engine)
    # Not sys.exit: it waits for threads, and a stuck engine or a load under way must not keep a dead pod alive.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _refuse_what_is_not_served(settings: EngineSettings) -> None:
    if settings.tensor_parallel_size != 1:
        raise flags.SettingsError(
            f"--tensor-parallel-size {settings.tensor_parallel_size}: this version serves 1 device a replica; "
            "set --tensor-parallel-size 1 (spec.accelerator.count: 1)"
        )
    if settings.enable_auto_tool_choice and settings.tool_call_parser is None:
        raise flags.SettingsError(
            "--enable-auto-tool-choice needs --tool-call-parser: name the format of this model's tool calls"
        )


def _load_engine(
    settings: EngineSettings, progress: Callable[[str], None], deliver: server.Deliver
) -> tuple[Engine, EngineLoop]:
    progress("importing torch")
    # Imported here, in the loading thread: torch takes seconds, and the server answers probes meanwhile.
    from llmservice_engine.engine import Engine, EngineLoop

    engine = Engine.load(settings, progress)
    return engine, EngineLoop(engine, deliver)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llmservice-engine serve",
        usage="llmservice-engine serve MODEL [flags]",
        description="Serve one model over an OpenAI-compatible API. Flags have vLLM's names and meanings.",
    )
    flags.add_flags(parser)
    return parser
