"""Prompts to tokens, against transformers, and model folders of all kinds."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from llmservice_engine.codec.codec import Codec, Formats
from llmservice_engine.codec.errors import NoChatTemplate, PromptError, TemplateRefused
from llmservice_engine.codec.template import PromptOptions
from llmservice_engine.codec.tools import hermes
from llmservice_engine.core.errors import InvalidSettings, ModelNotFound, WeightsIncomplete

MakeFolder = Callable[..., Path]

CHAT = [
    {"role": "system", "content": "You are a Kubernetes SRE expert."},
    {"role": "user", "content": "Explain CrashLoopBackOff in 2 sentences. Žluťoučký kůň 🚀   7"},
]
NO_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}ok"
)
STARTS_WITH_BOS = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
# What a Llama-family tokenizer.json does around a raw text.
ADDS_BOS = {
    "type": "TemplateProcessing",
    "single": [
        {"SpecialToken": {"id": "<|im_start|>", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
    ],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
    "special_tokens": {"<|im_start|>": {"id": "<|im_start|>", "ids": [1], "tokens": ["<|im_start|>"]}},
}


def test_tokens_equal_those_of_transformers(model_folder: Path, codec: Codec) -> None:
    """A16: the reference's ids, for a chat and for a raw text."""
    from transformers import PreTrainedTokenizerFast  # what AutoTokenizer makes, without its import of torch

    reference = PreTrainedTokenizerFast.from_pretrained(model_folder)
    for chat in (CHAT, CHAT[1:]):
        wanted = reference.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        assert codec.chat_tokens(chat) == tuple(wanted)
    for text in ("Hello, world", "   7 \n\n def f(x):\n\treturn x", "Žluťoučký kůň 🚀", "<|im_end|>"):
        assert codec.text_tokens(text) == tuple(reference(text)["input_ids"])


def test_a_chat_has_exactly_the_bos_that_its_template_writes(odd_folder: MakeFolder) -> None:
    """A16: the tokenizer adds one, the template writes one; a chat has one, a raw text has one."""
    codec = Codec.load(str(odd_folder(tokenizer={"post_processor": ADDS_BOS})), STARTS_WITH_BOS)
    assert codec.chat_tokens([{"role": "user", "content": "hi"}]).count(1) == 1
    assert codec.text_tokens("hi").count(1) == 1
    assert codec.text_tokens("") == (1,)  # A28: nothing but the start token is a prompt too


def test_a_model_without_template_loads_and_refuses_chats_saying_how_to_set_one(
    odd_folder: MakeFolder,
) -> None:
    """A17"""
    codec = Codec.load(str(odd_folder(chat_template=None)))
    with pytest.raises(NoChatTemplate, match="--chat-template"):
        codec.chat_tokens([{"role": "user", "content": "hi"}])
    assert codec.text_tokens("hi")


def test_a_template_that_refuses_is_quoted(odd_folder: MakeFolder) -> None:
    """A18"""
    codec = Codec.load(str(odd_folder()), NO_SYSTEM)
    with pytest.raises(TemplateRefused, match="System role not supported"):
        codec.chat_tokens(CHAT)
    assert codec.chat_tokens(CHAT[1:])


@pytest.mark.parametrize(
    "template", ["{{ 1 / 0 }}", "{{ messages[99].content }}", "{{ ''.__class__.__mro__ }}x{{ 1+'a' }}"]
)
def test_a_template_that_crashes_refuses_the_messages_and_no_more(
    template: str, odd_folder: MakeFolder
) -> None:
    """A18"""
    with pytest.raises(TemplateRefused):
        Codec.load(str(odd_folder()), template).chat_tokens(CHAT)


def test_a_template_cannot_reach_out_of_its_sandbox(odd_folder: MakeFolder) -> None:
    codec = Codec.load(str(odd_folder()), "{{ messages.__class__.__base__.__subclasses__() }}")
    with pytest.raises(TemplateRefused, match="unsafe"):
        codec.chat_tokens(CHAT)


def test_a_template_may_come_from_a_file_and_use_what_templates_use(
    odd_folder: MakeFolder, tmp_path: Path
) -> None:
    file = tmp_path / "my.jinja"
    file.write_text(
        "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{% generation %}{{ m.content }}"
        "{% endgeneration %}{{ {'a': '<é>'} | tojson }}{{ strftime_now('%Y') | length }}{% endfor %}"
    )
    codec = Codec.load(str(odd_folder()), str(file))
    text = codec.text_stream()
    said = (
        "".join(map(text.push, codec.chat_tokens([CHAT[0], {"role": "user", "content": "hi"}])))
        + text.finish()
    )
    assert said == 'hi{"a": "<é>"}4'


def test_the_model_s_template_may_be_one_of_several_in_its_settings(odd_folder: MakeFolder) -> None:
    templates = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "yes"}]
    codec = Codec.load(str(odd_folder(chat_template=None, tokenizer_config={"chat_template": templates})))
    assert codec.chat_tokens(CHAT) == codec.text_tokens("yes")


@pytest.mark.parametrize("setting", ["/no/such/file.jinja", "{% if %}"])
def test_a_template_setting_that_cannot_be_used_is_a_start_up_error(
    setting: str, odd_folder: MakeFolder
) -> None:
    with pytest.raises(InvalidSettings, match="template"):
        Codec.load(str(odd_folder()), setting)


@pytest.mark.parametrize(
    ("files", "ends"),
    [
        ({"generation_config": {"eos_token_id": [2, 5]}, "config": {"eos_token_id": 7}}, {2, 5, 7}),
        ({"generation_config": None, "config": {"eos_token_id": [8, 9]}}, {2, 8, 9}),
        ({"generation_config": {"eos_token_id": None}, "config": {"eos_token_id": None}}, {2}),
        ({"tokenizer_config": {"eos_token": {"content": "<|endoftext|>"}}}, {0, 2}),
    ],
)
def test_every_end_token_that_the_folder_names_ends_a_text(
    files: dict[str, Any], ends: set[int], odd_folder: MakeFolder
) -> None:
    """A19"""
    assert Codec.load(str(odd_folder(**files))).end_ids == ends


def test_the_model_s_own_sampling_defaults_are_read(odd_folder: MakeFolder) -> None:
    """A51"""
    defaults = Codec.load(
        str(odd_folder(generation_config={"temperature": 0.6, "top_k": 20}))
    ).sampling_defaults
    assert (defaults.temperature, defaults.top_p, defaults.top_k) == (0.6, None, 20)


def test_an_empty_text_is_refused_where_nothing_is_added_to_it(codec: Codec) -> None:
    """A28"""
    with pytest.raises(PromptError, match="empty"):
        codec.text_tokens("")


def test_half_a_surrogate_pair_is_refused(codec: Codec) -> None:
    with pytest.raises(PromptError, match="surrogate"):
        codec.text_tokens("a\ud800")


def test_folders_without_a_model_or_a_tokenizer_are_refused_by_name(
    tmp_path: Path, odd_folder: MakeFolder
) -> None:
    with pytest.raises(ModelNotFound, match="does not exist"):
        Codec.load(str(tmp_path / "none"))
    with pytest.raises(ModelNotFound, match=r"config\.json"):
        Codec.load(str(tmp_path))
    folder = odd_folder()
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(WeightsIncomplete, match=r"tokenizer\.json"):
        Codec.load(str(folder))
    (folder / "tokenizer.json").unlink()
    with pytest.raises(WeightsIncomplete, match=r"tokenizer\.json"):
        Codec.load(str(folder))
    (folder / "generation_config.json").write_text(json.dumps([]))
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(WeightsIncomplete, match=r"generation_config\.json"):
        Codec.load(str(folder))


def test_sampling_defaults_may_come_from_elsewhere(odd_folder: MakeFolder, tmp_path: Path) -> None:
    """A51"""
    model = str(odd_folder(generation_config={"temperature": 0.6, "top_k": 20}))
    assert Codec.load(model, generation_config="vllm").sampling_defaults.temperature is None
    (tmp_path / "generation_config.json").write_text('{"temperature": 0.3}')
    other = Codec.load(model, generation_config=str(tmp_path), override_generation_config={"top_p": 0.5})
    assert (other.sampling_defaults.temperature, other.sampling_defaults.top_p) == (0.3, 0.5)
    assert other.sampling_defaults.top_k is None
    with pytest.raises(InvalidSettings, match=r"generation_config\.json"):
        Codec.load(model, generation_config=str(tmp_path / "none"))
    with pytest.raises(InvalidSettings, match="temperature"):
        Codec.load(model, override_generation_config={"temperature": "hot"})


def test_a_template_sees_tools_documents_and_more(odd_folder: MakeFolder) -> None:
    template = "{{ tools | tojson }}{{ documents | tojson }}{{ mood }}{{ add_generation_prompt }}"
    codec = Codec.load(str(odd_folder()), template)
    options = PromptOptions(
        tools=[{"a": 1}], documents=[{"b": 2}], add_generation_prompt=False, more={"mood": "x"}
    )
    assert codec.chat_prompt(CHAT, options).text == '[{"a": 1}][{"b": 2}]xFalse'
    assert codec.chat_prompt(CHAT).text == "nullnullTrue"


def test_a_folder_s_template_for_tools_is_used_with_tools(odd_folder: MakeFolder) -> None:
    templates = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    codec = Codec.load(str(odd_folder(chat_template=None, tokenizer_config={"chat_template": templates})))
    assert codec.chat_prompt(CHAT, PromptOptions(tools=[{}])).text == "tools"
    assert codec.chat_prompt(CHAT).text == "plain"


def test_a_template_that_hides_the_final_message_cannot_continue_it(odd_folder: MakeFolder) -> None:
    codec = Codec.load(str(odd_folder()), "{# nothing #}")
    with pytest.raises(TemplateRefused, match="continued"):
        codec.chat_prompt([{"role": "assistant", "content": "a"}], PromptOptions(continue_final_message=True))
    with pytest.raises(PromptError, match="assistant"):
        codec.chat_prompt([{"role": "user", "content": "a"}], PromptOptions(continue_final_message=True))


def test_a_special_token_that_somebody_reads_leaves_its_text(odd_folder: MakeFolder) -> None:
    model = str(odd_folder())
    mark = dataclasses.replace(hermes.FORMAT, markers=("<|im_start|>",))
    for formats, text in ((Formats(), "x"), (Formats(mark), "<|im_start|>x")):
        codec = Codec.load(model, formats=formats)
        stream = codec.text_stream()
        assert "".join(map(stream.push, codec.text_tokens("<|im_start|>x"))) + stream.finish() == text


@pytest.mark.parametrize("arguments", ['{"a":', "[1]", "3", "plain words"])
def test_broken_arguments_do_not_end_a_conversation_whose_template_wants_objects(
    odd_folder: MakeFolder, arguments: str
) -> None:
    """A5: the model wrote them itself."""
    template = (
        "{% for c in messages[0].tool_calls %}{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}"
    )
    codec = Codec.load(str(odd_folder()), template + "{% endfor %}{% endfor %}")
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    prompt = codec.chat_prompt([{"role": "assistant", "content": None, "tool_calls": [call]}])
    assert prompt.text == f"arguments={arguments}"
