"""The server that a container runs, however its command line is written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from llmservice_operator.cli.people.conversion import shell

_MODULE = "vllm.entrypoints.openai.api_server"
_MODULES = (_MODULE, "vllm.entrypoints.api_server")
_REFERENCE = re.compile(r"\$\(([A-Za-z_][-A-Za-z0-9_.]*)\)")
_TELLING = (
    "max-model-len",
    "gpu-memory-utilization",
    "served-model-name",
    "tensor-parallel-size",
    "max-num-seqs",
)
OFFICIAL = re.compile(r"(^|/)vllm/vllm-openai([:@]|$)|(^|/)vllm-openai([:@]|$)")

# Servers that are not vLLM's, by a part of the image's name or of the command.
OTHERS = {
    "text-generation-inference": "Text Generation Inference",
    "text-generation-launcher": "Text Generation Inference",
    "sglang": "SGLang",
    "llama.cpp": "llama.cpp",
    "llama-server": "llama.cpp",
    "ollama": "Ollama",
    "tritonserver": "Triton",
    "lmdeploy": "LMDeploy",
    "/nim/": "NIM",
}


@dataclass(frozen=True, slots=True)
class Server:
    """vLLM's server. ``arguments`` begin with ``--model`` where the model was positional."""

    arguments: tuple[str, ...]
    from_image: bool  # no command was given: the image's entry point starts it
    beside: tuple[str, ...] = ()  # other commands of the same script
    variables: Mapping[str, str] = field(default_factory=dict)  # that the script sets


def of(container: Mapping[str, Any], known: Collection[str]) -> Server | None:
    """None where the container runs no vLLM. ``known``: names of its variables."""
    command, args = _words(container.get("command")), _words(container.get("args"))
    image = str(container.get("image", ""))
    words = command + args
    if shell.is_shell(words):
        return _of_script(shell.text_of(words), known)
    if command:
        rest = _after_server(command + _separated(args))
        return Server(rest, from_image=False) if rest is not None else None
    args = _separated(args)
    started = _after_server(args)
    if started is not None:
        return Server(started, from_image=True)
    if args[:1] == ["serve"]:
        args = args[1:]
    flags = {word[2:].partition("=")[0].replace("_", "-") for word in args if word.startswith("--")}
    told = "model" in flags and any(name in flags for name in _TELLING)
    if "vllm" in image.lower() or told:
        return Server(_with_model(args), from_image=True)
    return None


def other(container: Mapping[str, Any]) -> str | None:
    """The name of the server that it runs, where that is another one that we know."""
    text = " ".join(
        [str(container.get("image", "")), *_words(container.get("command")), *_words(container.get("args"))]
    )
    return next((name for part, name in OTHERS.items() if part in text.lower()), None)


def expanded(text: str, values: Mapping[str, str]) -> str:
    """``$(NAME)`` with the values that are known; the others stay."""
    return _REFERENCE.sub(lambda match: values.get(match[1], match[0]), text)


def _of_script(text: str, known: Collection[str]) -> Server | None:
    try:
        script = shell.read(text, known)
    except ValueError:
        return None
    for number, words in enumerate(script.commands):
        rest = _after_server(list(words))
        if rest is not None:
            others = (*script.commands[:number], *script.commands[number + 1 :])
            beside = (*map(shlex.join, others), *script.redirections)
            return Server(rest, from_image=False, beside=beside, variables=script.variables)
    return None


def _after_server(words: list[str]) -> tuple[str, ...] | None:
    """The arguments of vLLM's server, where ``words`` start it."""
    if not words:
        return None
    program = words[0].rpartition("/")[2]
    if program == "vllm" and words[1:2] == ["serve"]:
        return _with_model(words[2:])
    if re.fullmatch(r"python[\d.]*", program):
        rest = [word for word in words[1:] if word != "-u"]
        if rest[:1] == ["-m"] and rest[1:2] and rest[1] in _MODULES:
            return _with_model(rest[2:])
        if rest[:1] and rest[0].endswith("api_server.py"):
            return _with_model(rest[1:])
    if program.endswith("api_server.py"):
        return _with_model(words[1:])
    return None


def _with_model(arguments: list[str]) -> tuple[str, ...]:
    if arguments and not arguments[0].startswith("-"):
        return ("--model", *arguments)
    return tuple(arguments)


def _words(given: Any) -> list[str]:
    """As Kubernetes has it, a list; as people also write it, one string."""
    if isinstance(given, str):
        return shlex.split(given)
    return [str(word) for word in given or ()]


def _separated(args: list[str]) -> list[str]:
    """Flags that share one string (``--model org/name --port 8000``) as words of their own."""
    made: list[str] = []
    for word in args:
        head = word.partition(" ")[0]
        together = word.startswith("-") and " " in word and ("=" not in head or " --" in word)
        made += shlex.split(word) if together else [word]
    return made
