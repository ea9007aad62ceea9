"""Loads a model in a process of its own and prints what that really took: ``python -m … FOLDER SETTINGS_JSON``.

One JSON object: the planner's figures, the bytes of the tensors that exist, and the growth of the process's anonymous
memory after loading, after the whole cache has been written, and at the peak of the largest steps.
"""

from __future__ import annotations

import llmservice_engine.device  # noqa: F401 (first of all: it says how threads wait, which torch reads once)

# isort: split
import gc
import json
import sys
import threading
import time
from dataclasses import asdict
from types import TracebackType
from unittest import mock

import torch
from llmservice_engine.core.sampling_params import SamplingParams
from llmservice_engine.core.step import Chunk, Draw, StepPlan
from llmservice_engine.device import load, memory
from llmservice_engine.device.load import Loaded
from llmservice_engine.ops.attention.interface import KVCache
from llmservice_planner import plan
from llmservice_planner.settings import EngineSettings


class Peak:
    """The most anonymous memory that this process held inside the block, looked at every millisecond."""

    def __enter__(self) -> Peak:
        self.bytes = 0
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def _watch(self) -> None:
        while not self._over.is_set():
            self.bytes = max(self.bytes, memory.process())
            time.sleep(0.001)

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()
        self._watcher.join()


def main() -> None:
    settings = EngineSettings(model=sys.argv[1], **json.loads(sys.argv[2]))
    plans: list[plan.Plan] = []
    caches: list[KVCache] = []

    def kept(known: list, make):  # type: ignore[no-untyped-def, type-arg]
        return lambda *given, **named: known.append(make(*given, **named)) or known[-1]

    before, existing = memory.process(), set(storages())
    with (
        mock.patch.object(load.planner, "make", kept(plans, plan.make)),
        mock.patch.object(load, "allocate", kept(caches, load.allocate)),
    ):
        loaded = load.load(settings, lambda _: None)
    after = memory.process()
    (made,), (cache,) = plans, caches
    with torch.inference_mode():
        for tensor in (*cache.keys, *cache.values):
            tensor.fill_(0)  # a page costs memory only once it is written
    filled = memory.process()
    with Peak() as peak:
        largest_steps(loaded, made)
    print(
        json.dumps(
            {
                "plan": asdict(made),
                "process": before,
                "tensors": sum(size for key, size in storages().items() if key not in existing),
                "cache": sum(tensor.nbytes for tensor in (*cache.keys, *cache.values)),
                "loaded": after - before,
                "filled": filled - after,
                "peak": peak.bytes - before,
            }
        )
    )


def storages() -> dict[int, int]:
    """Bytes of each tensor's memory, by its address; views share one."""
    tensors = [found for found in gc.get_objects() if isinstance(found, torch.Tensor)]
    plain = [tensor.untyped_storage() for tensor in tensors if not tensor.is_mkldnn]
    return {storage.data_ptr(): storage.nbytes() for storage in plain if storage.nbytes()}


def largest_steps(loaded: Loaded, made: plan.Plan) -> None:
    """A prompt's first and last chunk, and every sequence at its full length."""
    step, length, size = 2048, made.max_model_len, made.block_size
    draw = Draw(SamplingParams(max_tokens=1, temperature=1), seed=0, position=length)

    def chunk(number: int, start: int, tokens: int) -> Chunk:
        table = tuple((number * 7 + block) % made.blocks for block in range(-(-(start + tokens) // size)))
        return Chunk(f"r{number}", (1,) * tokens, start, table, draw)

    sequences = round(made.full_length_sequences)
    for chunks in (
        [chunk(0, 0, min(step, length))],
        [chunk(0, max(0, length - step), min(step, length))],
        [chunk(number, length - 1, 1) for number in range(sequences)],
    ):
        loaded.runner.run(StepPlan(tuple(chunks)))


if __name__ == "__main__":
    main()
