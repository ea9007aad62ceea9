"""Decoding speed of the engine itself, without HTTP: milliseconds a step and tokens a second by batch size.

    python engine/benchmarks/decode_step.py MODEL [--dtype bfloat16] [--batch 1 16 64] [--profile]

Each sequence starts with a random prompt of 64 to 256 tokens; the steps after all prompts are computed are timed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

import torch
from llmservice_engine.core.request import NewRequest
from llmservice_engine.core.sampling_params import SamplingParams
from llmservice_engine.engine import Engine
from llmservice_planner.settings import EngineSettings


def fill(engine: Engine, batch: int, steps: int) -> float:
    """Queue ``batch`` requests and compute their prompts. Returns prompt tokens a second."""
    numbers = random.Random(0)
    prompts = 0
    for number in range(batch):
        length = numbers.randint(64, 256)
        prompt = tuple(numbers.randrange(engine.info.vocabulary) for _ in range(length))
        params = SamplingParams(max_tokens=steps + 64, temperature=0)
        engine.add(NewRequest(f"{batch}-{number}", prompt, params))
        prompts += length
    begun = time.perf_counter()
    while engine.stats().waiting or engine.stats().step_tokens != batch:
        engine.step()
    return prompts / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16, 64])
    parser.add_argument("--steps", type=int, default=32)
    parser.add_argument("--profile", action="store_true", help="print where the time of one step goes")
    given = parser.parse_args()
    engine = Engine.load(EngineSettings(model=given.model, dtype=given.dtype), print)
    print(f"{engine.info.dtype}, {torch.get_num_threads()} threads")
    for batch in given.batch:
        prefill = fill(engine, batch, given.steps)
        times = []
        for _ in range(given.steps):
            begun = time.perf_counter()
            engine.step()
            times.append(time.perf_counter() - begun)
        middle = statistics.median(times)
        print(
            f"batch {batch:3}: {middle * 1e3:6.1f} ms a step (best {min(times) * 1e3:.1f}), "
            f"{batch / middle:6.1f} tok/s, prompts {prefill:.0f} tok/s"
        )
        if given.profile:
            with torch.profiler.profile() as profile:
                engine.step()
            print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=20))
        engine.abort_all()


if __name__ == "__main__":
    main()
