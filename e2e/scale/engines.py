"""Answers ``/metrics`` for every fake pod, as an engine does; ``--silent`` takes the connection and says nothing.

``python -m e2e.scale.engines PORT``. A process of its own, so that the benchmark's work does not slow it down.
"""

from __future__ import annotations

import asyncio
import sys

TOLD = "".join(
    f'llmservice:memory_bytes{{kind="{kind}"}} {size}\n'
    for kind, size in (
        ("weights", 16_060_000_000),
        ("kv_cache", 40_000_000_000),
        ("activations", 2_000_000_000),
        ("overhead", 1_000_000_000),
        ("available", 80_000_000_000),
    )
) + ("llmservice:kv_cache_tokens 300000\nllmservice:kv_cache_sequences 36\n")
ANSWER = (
    f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(TOLD)}\r\nConnection: close\r\n\r\n"
    + TOLD
).encode()
SILENCE = 60.0  # seconds


async def main(port: int, *, silent: bool) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if silent:
            await asyncio.sleep(SILENCE)
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "0.0.0.0", port, backlog=1024)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), silent="--silent" in sys.argv))
