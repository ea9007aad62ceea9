"""Which tokens are computed in the next step.

There are no prefill and decode phases. Each request's computed tokens catch up with its known tokens, under one
token budget a step. Running requests come first, in the order of their admission, so a long prompt never holds
up a request that already answers: only the last of the running can be in the middle of its prompt, because a
prompt that did not fit into a step has used that step's whole budget. Waiting requests follow in the order of their
priority, those of the same priority in the order of their arrival.
"""

from __future__ import annotations

from bisect import insort_left, insort_right
from operator import attrgetter

from llmservice_engine.core.block_pool import BlockPool
from llmservice_engine.core.outputs import EngineStats, FinishReason, TokenDelta
from llmservice_engine.core.request import Request
from llmservice_engine.core.step import Chunk, Draw, Score, StepPlan, StepResult

_PRIORITY = attrgetter("priority")


class Scheduler:
    """Owns every unfinished request and the block pool. Pure integers."""

    def __init__(
        self, *, blocks: int, block_size: int, max_num_seqs: int, max_num_batched_tokens: int
    ) -> None:
        self._pool = BlockPool(blocks)
        self._block_size = block_size
        self._max_num_seqs = max_num_seqs
        self._max_num_batched_tokens = max_num_batched_tokens
        self._running: list[Request] = []  # in the order of admission
        self._waiting: list[Request] = []  # by priority, then arrival
        self._by_id: dict[str, Request] = {}
        self._preemptions = 0
        self._steps = 0
        self._step_tokens = 0

    @property
    def has_work(self) -> bool:
        return bool(self._by_id)

    @property
    def request_ids(self) -> tuple[str, ...]:
        """Of every unfinished request."""
        return tuple(self._by_id)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._by_id

    def stats(self) -> EngineStats:
        return EngineStats(
            running=len(self._running),
            waiting=len(self._waiting),
            kv_usage=self._pool.usage,
            preemptions=self._preemptions,
            steps=self._steps,
            step_tokens=self._step_tokens,
        )

    def add(self, request: Request) -> None:
        """Queue a request. The caller has made sure that alone it fits into the pool."""
        self._by_id[request.request_id] = request
        insort_right(self._waiting, request, key=_PRIORITY)

    def abort(self, request_id: str) -> None:
        """Forget a request and free its blocks. Nothing happens where it is finished already."""
        request = self._by_id.get(request_id)
        if request is not None:
            self._finish(request)

    def schedule(self) -> StepPlan:
        """Decide the next step. Blocks for every token in it are allocated.

        Raises:
            RuntimeError: requests are there, but not one can advance; a fault of the caller of ``add``.
        """
        preemptions = self._preemptions
        chunks = self._advance_running()
        if self._preemptions == preemptions:  # else a new request would only be preempted again
            chunks += self._admit(self._max_num_batched_tokens - sum(len(c.token_ids) for c in chunks))
        plan = StepPlan(tuple(chunks))
        if self.has_work and not plan.chunks:
            raise RuntimeError(f"none of {len(self._by_id)} requests can advance")
        self._steps += 1
        self._step_tokens = plan.tokens
        return plan

    def update(self, plan: StepPlan, result: StepResult) -> list[TokenDelta]:
        """Take in what came of ``plan``: new tokens become known, ended requests leave."""
        deltas = []
        for chunk in plan.chunks:
            request = self._by_id.get(chunk.request_id)
            if request is None:  # aborted while the step ran
                continue
            request.computed = chunk.end
            delta = _delta(request, result)
            if delta is not None:
                deltas.append(delta)
                if delta.finish_reason is not None:
                    self._finish(request)
        return deltas

    def _advance_running(self) -> list[Chunk]:
        budget = self._max_num_batched_tokens
        chunks: list[Chunk] = []
        while budget and len(chunks) < len(self._running):
            request = self._running[len(chunks)]  # whoever is preempted stands behind it, or is it
            count = min(request.behind, budget)
            if not self._make_room(request, count):
                break
            chunks.append(self._chunk(request, count))
            budget -= count
        return chunks

    def _admit(self, budget: int) -> list[Chunk]:
        chunks = []
        while budget and self._waiting and len(self._running) < self._max_num_seqs:
            request = self._waiting[0]
            # Room for all that is known, and for the next token: a prompt let in by halves would be preempted.
            if self._blocks_for(request.known + 1) > self._pool.free and self._running:
                break
            self._running.append(self._waiting.pop(0))
            count = min(request.behind, budget)
            if not self._make_room(request, count):
                break
            chunks.append(self._chunk(request, count))
            budget -= count
        return chunks

    def _make_room(self, request: Request, count: int) -> bool:
        """Give ``request`` blocks for ``count`` more tokens, at the expense of those behind it.

        False where it was itself the last, and had to go back to waiting.
        """
        missing = self._blocks_for(request.computed + count) - len(request.blocks)
        while missing > self._pool.free:
            victim = self._running.pop()
            self._preempt(victim)
            if victim is request:
                return False
        request.blocks += self._pool.allocate(missing)
        return True

    def _preempt(self, victim: Request) -> None:
        """Free its blocks; its tokens stay known and are computed again when there is room."""
        self._release(victim)
        victim.computed = 0
        insort_left(self._waiting, victim, key=_PRIORITY)  # before all that came later
        self._preemptions += 1

    def _finish(self, request: Request) -> None:
        del self._by_id[request.request_id]
        self._release(request)
        if request in self._running:
            self._running.remove(request)
        else:
            self._waiting.remove(request)

    def _release(self, request: Request) -> None:
        self._pool.release(request.blocks)
        request.blocks = []

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self._block_size)

    @staticmethod
    def _chunk(request: Request, count: int) -> Chunk:
        start, end = request.computed, request.computed + count
        samples = end == request.known and request.params.max_tokens > 0
        return Chunk(
            request_id=request.request_id,
            token_ids=tuple(request.token_ids[start:end]),
            start=start,
            block_table=tuple(request.blocks),
            draw=_draw(request, end) if samples else None,
            score=_score(request, start, end),
            pooled=request.params.pooled and end == request.known,
        )


def _draw(request: Request, position: int) -> Draw:
    params = request.params
    told = position if params.penalises or params.bad_words else 0
    return Draw(
        params, request.seed, position, request.prompt_tokens, request.token_ids[:told], request.matcher
    )


def _score(request: Request, start: int, end: int) -> Score | None:
    """The prompt tokens that the rows ``start`` to ``end`` tell about, but for those that were told of before."""
    top = request.params.prompt_logprobs
    if top is None or request.output_tokens:
        return None
    first = max(start, len(request.prompt_logprobs))
    last = min(end, request.prompt_tokens - 1)
    if first >= last:
        return None
    return Score(first - start, tuple(request.token_ids[first + 1 : last + 1]), top)


def _delta(request: Request, result: StepResult) -> TokenDelta | None:
    """What this step adds to the request, seen from outside; None where its prompt is not whole yet."""
    name = request.request_id
    failure = result.errors.get(name)
    if failure is not None:
        ended = FinishReason.REFUSED if failure.of_request else FinishReason.ERROR
        return TokenDelta(name, (), ended, failure.reason)
    request.prompt_logprobs += result.prompt_logprobs.get(name, ())
    if request.params.max_tokens == 0 and not request.behind:
        told, vector = request.take_prompt_logprobs(), result.vectors.get(name, ())
        ended = FinishReason.STOP if request.params.pooled else FinishReason.LENGTH
        return TokenDelta(name, (), ended, prompt_logprobs=told, vector=vector)
    token = result.tokens.get(name)
    if token is None:
        return None
    logprobs = (result.logprobs[name],) if name in result.logprobs else ()
    prompt_logprobs = request.take_prompt_logprobs() if request.prompt_logprobs else ()
    reason = request.append(token)
    return TokenDelta(name, (token,), reason, logprobs=logprobs, prompt_logprobs=prompt_logprobs)
