"""Fields that are known but not served, and those that nobody knows.

A known field that would change the answer is refused by name unless its value changes nothing. Fields that change
nothing here (bookkeeping) are accepted, and unknown ones are ignored with one log line, as OpenAI's clients expect.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from llmservice_engine.api import problem

log = logging.getLogger("llmservice.api")

# Field → the values besides null that change nothing.
_COMMON: Mapping[str, tuple[object, ...]] = {
    "length_penalty": (1,),
    "use_beam_search": (False,),
    "logits_processors": ([],),
    "thinking_token_budget": (),
    "allowed_token_ids": (),
    "spaces_between_special_tokens": (True, False),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "guided_decoding_backend": ("auto", "guidance"),
    "guided_whitespace_pattern": (),
    "kv_transfer_params": (),
    "vllm_xargs": ({},),
}
_CHAT: Mapping[str, tuple[object, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "web_search_options": (),
}
_COMPLETION: Mapping[str, tuple[object, ...]] = {
    "add_special_tokens": (),
    "suffix": ("",),
    "prompt_embeds": (),
}
_BOOKKEEPING = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "request_id",
        "cache_salt",
    }
)
# What takes long to admit: grammars are compiled, bytes of tokens looked up, prompts decoded. "text" is of responses.
SLOW = frozenset(
    {
        "response_format",
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "tools",
        "text",
        "logprobs",
        "prompt_logprobs",
        "echo",
    }
)
_SAYS: Mapping[str, str] = {
    "functions": "functions is the older name of tools, which are served: give tools",
    "function_call": "function_call is the older name of tool_choice, which is served: give tool_choice",
}


def refuse_unserved_chat(body: Mapping[str, Any]) -> None:
    """Raises a 400 for the first known field whose value asks for what is not served."""
    off = {"functions"} if "none" in (body.get("tool_choice"), body.get("function_call")) else set()
    _refuse({k: v for k, v in body.items() if k not in off}, {**_COMMON, **_CHAT})


def refuse_unserved_completion(body: Mapping[str, Any]) -> None:
    _refuse(body, {**_COMMON, **_COMPLETION})


def _refuse(body: Mapping[str, Any], unserved: Mapping[str, tuple[object, ...]]) -> None:
    for field, value in body.items():
        if value is not None and field in unserved and value not in unserved[field]:
            raise problem.unsupported(field, _SAYS.get(field, f"{field} is not served yet: leave it out"))


def log_unknown(body: Mapping[str, Any], served: tuple[str, ...], request_id: str) -> None:
    """One line with the names, never the values, of fields that nobody knows."""
    unknown = body.keys() - served - _COMMON.keys() - _CHAT.keys() - _COMPLETION.keys() - _BOOKKEEPING
    if unknown:
        names = ",".join(sorted(unknown))[:200].encode("unicode_escape").decode()
        log.info("ignored unknown fields request_id=%s fields=%s", request_id, names)
