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
    "n": (1,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "min_p": (0,),
    "min_tokens": (0,),
    "best_of": (1,),
    "use_beam_search": (False,),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True, False),
    "add_special_tokens": (),
    "echo": (False,),
    "prompt_logprobs": (),
    "truncate_prompt_tokens": (),
    "return_token_ids": (False,),
    "return_tokens_as_token_ids": (False,),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_decoding_backend": (),
    "response_format": ({"type": "text"},),
    "priority": (0,),
    "kv_transfer_params": (),
    "vllm_xargs": ({},),
}
_CHAT: Mapping[str, tuple[object, ...]] = {
    "logprobs": (False,),
    "top_logprobs": (0,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "web_search_options": (),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "documents": ([],),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
}
_COMPLETION: Mapping[str, tuple[object, ...]] = {"logprobs": (), "suffix": ("",), "prompt_embeds": ()}
_BOOKKEEPING = frozenset(
    {
        "user",
        "metadata",
        "store",
        "service_tier",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "parallel_tool_calls",
        "request_id",
        "cache_salt",
    }
)
_SAYS: Mapping[str, str] = {
    "tools": "tools are not served: the engine has no tool-call parser; leave tools out or set tool_choice to none",
    "n": "n above 1 is not served: send the request again for another answer",
}


def refuse_unserved_chat(body: Mapping[str, Any]) -> None:
    """Raises a 400 for the first known field whose value asks for what is not served."""
    calls_off = (
        {"tools", "functions"} if "none" in (body.get("tool_choice"), body.get("function_call")) else set()
    )
    _refuse({k: v for k, v in body.items() if k not in calls_off}, {**_COMMON, **_CHAT})


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
