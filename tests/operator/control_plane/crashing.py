"""The operator, but it dies in the middle: a program for ``Fleet.start(program=crashing.PROGRAM)``.

Never part of the product: it wraps the client's one request function and then runs the usual command line.
``CRASH_AFTER`` is the number of the write after whose answer the process ends, as by ``kill -9``; leases and events
are not counted. ``RELIST_SECONDS`` shortens the time between two lists of a kind.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

CRASH_AFTER = "TEST_CRASH_AFTER"
RELIST_SECONDS = "TEST_RELIST_SECONDS"
PROGRAM = (str(Path(__file__).resolve()),)
CODE = 86  # exit code of the crash


def main() -> None:
    from llmservice_operator import cli
    from llmservice_operator.live.client import Client
    from llmservice_operator.watch.relist import Relist

    last, usual, count = int(os.environ.get(CRASH_AFTER, "0")), Client._call, 0

    async def call(self: Client, method: str, path: str, **given: Any) -> Any:
        nonlocal count
        answer = await usual(self, method, path, **given)
        if method != "GET" and not {"leases", "events"} & set(path.split("/")):
            count += 1
            print(f"write {count}: {method} {path}", flush=True)
            if count == last:
                os._exit(CODE)
        return answer

    Client._call = call  # type: ignore[method-assign]
    if RELIST_SECONDS in os.environ:
        Relist.forever.__defaults__ = (float(os.environ[RELIST_SECONDS]),)
    cli.main()


if __name__ == "__main__":
    main()
