"""The engine's settings: vLLM's names, our errors."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmservice_planner import settings

SEED_ARTICLE_FLAGS = [
    "--model", "meta-llama/Meta-Llama-3-8B-Instruct", "--port", "8000", "--gpu-memory-utilization", "0.90",
    "--max-model-len", "4096", "--block-size", "16", "--max-num-seqs", "256", "--tensor-parallel-size", "1",
]  # fmt: skip


def test_a_vllm_deployments_arguments_are_read_unchanged() -> None:
    read = settings.parse_args(SEED_ARTICLE_FLAGS)
    assert (read.model, read.port, read.max_model_len) == ("meta-llama/Meta-Llama-3-8B-Instruct", 8000, 4096)
    assert (read.gpu_memory_utilization, read.block_size, read.max_num_seqs) == (0.9, 16, 256)
    assert read.served_names == ("meta-llama/Meta-Llama-3-8B-Instruct",)


def test_the_model_may_be_a_positional_and_flags_may_use_equals() -> None:
    read = settings.parse_args(
        ["/models/x", "--port=9000", "--served-model-name", "a", "b", "--dtype", "half"]
    )
    assert (read.model, read.port, read.served_names, read.dtype) == (
        "/models/x",
        9000,
        ("a", "b"),
        "float16",
    )


def test_the_last_of_a_repeated_flag_counts() -> None:
    assert settings.parse_args(["m", "--max-model-len", "1", "--max-model-len", "2"]).max_model_len == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["m", "--max-num-batched-token", "8"], "did you mean --max-num-batched-tokens?"),
        (["m", "--qqq"], "unknown flag --qqq; `llmservice-engine serve --help` lists the flags"),
        (["m", "--port", "70000"], "--port '70000': Input should be less than or equal to 65535"),
        (["m", "--block-size", "7"], "--block-size '7'"),
        (["m", "--max-model-len", "many"], "--max-model-len 'many'"),
        (["m", "--dtype", "int3"], "--dtype 'int3'"),
        (["m", "--tensor-parallel-size", "0"], "--tensor-parallel-size '0'"),
        (["a", "--model", "b"], "the model is given twice"),
        (["--port", "1"], "no model given"),
        (["m", "--port"], "expected one argument"),
    ],
)  # fmt: skip
def test_a_bad_command_line_is_refused_by_the_flags_name(arguments: list[str], said: str) -> None:
    with pytest.raises(settings.SettingsError) as refusal:
        settings.parse_args(arguments)
    assert said in str(refusal.value)


@given(st.lists(st.text(max_size=20), max_size=6))
def test_no_command_line_ends_in_anything_but_settings_or_a_refusal(arguments: list[str]) -> None:
    try:
        assert isinstance(settings.parse_args(arguments), settings.EngineSettings)
    except settings.SettingsError as refusal:
        assert str(refusal)


def test_a_flags_field_is_found_however_it_is_spelt() -> None:
    assert settings.flag_given("--served-model-name=x") == "served_model_name"
    assert settings.flag_given("8000") is None


def test_owned_and_typed_fields_exist() -> None:
    assert set(settings.EngineSettings.model_fields) >= settings.OPERATOR_OWNED
    assert settings.OPERATOR_OWNED.isdisjoint(settings.resource_fields())


def test_a_switch_needs_no_value_and_can_be_turned_off() -> None:
    flag = "--enable-auto-tool-choice"
    assert settings.parse_args([flag, "m"]).enable_auto_tool_choice
    assert not settings.parse_args(["m", flag, "--no-enable-auto-tool-choice"]).enable_auto_tool_choice
    assert settings.words("enable_auto_tool_choice", True) == [flag]
    assert settings.flag_given("--no-enable-auto-tool-choice") == "enable_auto_tool_choice"


def test_all_api_keys_count_and_none_is_told() -> None:
    read = settings.parse_args(["m", "--api-key", "secret-1", "--api-key", "secret-2"])
    assert read.api_key == ("secret-1", "secret-2")
    assert "secret" not in repr(read)
    for arguments in (["m", "--api-key", ""], ["m", "--apikey=secret-1"]):
        with pytest.raises(settings.SettingsError) as refusal:
            settings.parse_args(arguments)
        assert "secret" not in str(refusal.value)


def test_overridden_sampling_defaults_are_a_json_object() -> None:
    flag = "--override-generation-config"
    assert settings.parse_args(["m", flag, '{"top_k": 5}']).override_generation_config == {"top_k": 5}
    for text in ("{", "[1]"):
        with pytest.raises(settings.SettingsError, match="override-generation-config"):
            settings.parse_args(["m", flag, text])
