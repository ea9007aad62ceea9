"""A server whose engine's thread dies or hangs at the first request after the warm-up: ``die`` or ``stall``.

Everything but the engine is the real thing. Run as a program, with the command line of ``serve`` after the mode.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from llmservice_engine.api import server
from llmservice_engine.core.outputs import EngineInfo, EngineStats, FinishReason, TokenDelta
from llmservice_planner import settings

INFO = EngineInfo(8192, 49152, frozenset({2}), "float32", "cpu", 16, 512, 1, 1, 1, 1, 4, 1, 0.0)
IDLE = EngineStats(0, 0, 0.0, 0, 0, 0)


class FailingEngine:
    info = INFO

    def check(self, prompt_tokens: int, max_tokens: int) -> None:
        pass

    def stats(self) -> EngineStats:
        return IDLE


class FailingLoop:
    def __init__(self, mode: str, deliver: server.Deliver) -> None:
        self.failed: BaseException | None = None
        self.busy = False
        self.last_progress = time.monotonic()
        self._mode = mode
        self._deliver = deliver

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def abort(self, request_id: str) -> None:
        pass

    def submit(self, request: Any) -> None:
        if request.request_id == "warm-up":
            self._deliver([TokenDelta("warm-up", (5, 6), FinishReason.LENGTH)], IDLE)
            return
        self.busy = True
        self.last_progress = time.monotonic()
        self._deliver([TokenDelta(request.request_id, (504,))], IDLE)
        if self._mode == "die":
            self.failed = RuntimeError("the device is lost")


def load(_: object, progress: object, deliver: server.Deliver) -> Any:
    return FailingEngine(), FailingLoop(sys.argv[1], deliver)


if __name__ == "__main__":
    os._exit(server.serve(settings.parse_args(sys.argv[2:]), load))
