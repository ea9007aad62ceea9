"""``llmservice plan -f``, ``render`` and ``preflight`` without a cluster: verdicts, children, what an edit restarts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from llmservice_operator.api import spec
from llmservice_operator.cli.people import manifests
from llmservice_planner import known

from tests.operator.cli.person import Body, Said, refused, types

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
HUB = {"source": {"hf": {"repo": "Qwen/Qwen3-8B"}}}


def service(name: str = "chat", **fields: Any) -> Body:
    given = {"model": HUB, "accelerator": {"count": 1, "memoryPerDevice": "24Gi"}, "replicas": 2} | fields
    return {
        "apiVersion": "serving.llmservice.dev/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {key: value for key, value in given.items() if value is not None},
    }


def with_file(command: str, body: Body | str, *words: object) -> Said:
    return types(command, "-f", "-", *words, given=body if isinstance(body, str) else yaml.safe_dump(body))


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


# --- plan ----------------------------------------------------------------------------------------------------
def test_the_verdict_on_a_manifest_is_that_of_the_same_flags() -> None:
    said = with_file("plan", service(engine={"maxModelLen": 8192}))
    flags = types("plan", "Qwen3-8B", "--device-memory", "24Gi", "--", "--max-model-len", "8192")
    assert (said.code, said.out) == (0, flags.out)


@pytest.mark.parametrize(
    "repo", ["Qwen/Qwen2.5-7B-Instruct", "google/gemma-2-9b-it", "mistralai/Mistral-7B-Instruct-v0.3"]
)
def test_a_tuned_model_has_the_shape_of_the_one_it_was_tuned_from(repo: str) -> None:
    body = service(model={"source": {"hf": {"repo": repo}}})
    assert with_file("plan", body, "--device-memory", "H200").code == 0


def test_what_does_not_fit_ends_with_1_and_json_has_the_figures() -> None:
    said = with_file("plan", service(), "--device-memory", "8Gi", "-o", "json")
    assert said.code == 1
    assert said.json["verdict"] == "DoesNotFit"
    assert said.json["required"] > said.json["available"]


def test_a_model_of_a_claim_is_sized_by_its_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(known.MODELS["SmolLM2-135M"]))
    body = service(model={"source": {"pvc": {"claimName": "models"}}})
    for words in (["--config", tmp_path / "config.json"], ["--model-folder", tmp_path]):
        assert with_file("plan", body, *words).out.splitlines()[-1].startswith("Fits: ")


def test_on_the_cpu_the_memory_is_the_limit() -> None:
    cpu = {"accelerator": {"count": 0}, "resources": {"limits": {"memory": "2Gi"}}}
    body = service(model={"source": {"hf": {"repo": "HuggingFaceTB/SmolLM2-135M-Instruct"}}}, **cpu)
    assert with_file("plan", body).code == 0


@pytest.mark.parametrize(
    ("body", "words", "said"),
    [
        (service(model={"source": {"hf": {"repo": "org/strange"}}}), [], "org/strange is no known model"),
        (service(accelerator={"count": 1}), [], "spec.accelerator.memoryPerDevice is not given"),
        (service(accelerator={"count": 0}), [], "spec.resources.limits.memory is not given"),
        (service(), ["--device-memory", "24GB"], "'24GB' is not a quantity"),
        (service(), ["--count", "2"], "--count and --cpu are for MODEL"),
        (service(), ["--", "--max-model-len", "3"], "with -f the flags are the manifest's"),
        (service(), ["--config", "/nowhere.json"], "/nowhere.json is neither a file nor a known model"),
        (service(engine={"maxModelLn": 1}), [], "spec.engine.maxModelLn: is not a field"),
        (service(engine={"args": ["--sede", "1"]}), [], "did you mean --seed?"),
        ({**service(), "apiVersion": "v1"}, [], "apiVersion is 'v1'"),
        ({**service(), "spec": None}, [], "chat has no spec"),
        ({**service(), "metadata": {}}, [], "no metadata.name"),
        ({"kind": "Pod"}, [], "holds no LLMService, but Pod"),
        ("a: [", [], "is not YAML"),
        ("", [], "holds no LLMService, but nothing"),
    ],
)  # fmt: skip
def test_a_manifest_that_cannot_be_judged_gets_one_line(
    body: Body | str, words: list[str], said: str
) -> None:
    assert said in refused(with_file("plan", body, *words))


def test_of_several_in_a_file_one_is_named() -> None:
    both = yaml.safe_dump_all(
        [service("one"), service("two", accelerator={"count": 1, "memoryPerDevice": "8Gi"})]
    )
    assert "choose one with --name" in refused(with_file("plan", both))
    assert with_file("plan", both, "--name", "two").code == 1
    assert "named three" in refused(with_file("plan", both, "--name", "three"))


# --- render --------------------------------------------------------------------------------------------------
def test_the_children_come_as_manifests_with_what_was_assumed_aside() -> None:
    said = with_file("render", service(), "--revision", "c0ffee")
    kinds = [child["kind"] for child in said.documents]
    assert kinds == [
        "PersistentVolumeClaim",
        "Job",
        "Deployment",
        "Service",
        "PodDisruptionBudget",
        "PodMonitor",
    ]
    assert "snapshots/c0ffee" in said.out
    assert "exists and the copy is complete" in said.err
    assert all(line.startswith("# assumed: ") for line in said.err.splitlines())


def test_all_children_are_those_that_come_and_go_too() -> None:
    made = with_file("render", service(), "--all", "-o", "json").json
    assert [child["kind"] for child in made][:4] == [
        "Job",
        "PersistentVolumeClaim",
        "Job",
        "ControllerRevision",
    ]
    assert not any("status" in child for child in made)


def test_without_a_commit_a_placeholder_stands_for_it_and_that_is_said() -> None:
    said = with_file("render", service())
    assert f"snapshots/{'0' * 40}" in said.out
    assert "--revision says another" in said.err


def test_the_chart_s_defaults_count_where_the_environment_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "LLMSERVICE_ENGINE_DEFAULTS", '{"image": "mirror/engine:1", "storageClassName": "efs"}'
    )
    claim, _, deployment, *_ = with_file("render", service()).documents
    assert claim["spec"]["storageClassName"] == "efs"
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "mirror/engine:1"
    monkeypatch.setenv("LLMSERVICE_ENGINE_DEFAULTS", "{")
    assert "is not JSON" in refused(with_file("render", service()))


def test_enforced_what_cannot_fit_has_no_deployment_and_the_reason_is_said() -> None:
    device = {"count": 1, "memoryPerDevice": "8Gi", "fitPolicy": "Enforce"}
    said = with_file("render", service(accelerator=device))
    assert "Deployment" not in [child["kind"] for child in said.documents]
    assert "fitPolicy is Enforce: weights 15,623 MiB" in said.err


def test_a_template_that_cannot_be_rendered_gets_one_line() -> None:
    probe = {"name": "engine", "startupProbe": {"failureThreshold": "many"}}
    body = service(template={"spec": {"containers": [probe]}})
    assert "spec.template has a value of the wrong kind" in refused(with_file("render", body))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_renders(example: Path) -> None:
    said = types("render", "-f", example)
    assert said.code == 0, said.err
    assert "Deployment" in [child["kind"] for child in said.documents]


# --- render --against ----------------------------------------------------------------------------------------
CHANGES: list[tuple[Body, Body, int, str]] = [
    ({}, {}, 0, "this edit changes nothing"),
    ({}, {"engine": {"maxModelLen": 4096}}, 1, "this edit restarts 2 pods because spec.engine.maxModelLen changed"),
    ({}, {"replicas": 3}, 0, "this edit restarts nothing and starts 1 pod more"),
    ({}, {"replicas": 0}, 0, "this edit restarts nothing and ends 2 pods"),
    ({}, {"suspend": True}, 0, "this edit restarts nothing and ends 2 pods"),
    ({}, {"expose": {"service": {"port": 80}}}, 0, "this edit restarts nothing"),
    ({}, {"accelerator": {"count": 1, "memoryPerDevice": "80Gi"}}, 0, "this edit restarts nothing"),
    ({"resources": {"limits": {"cpu": "1000m"}}}, {"resources": {"limits": {"cpu": 1}}}, 0,
     "this edit changes nothing"),
    ({}, {"replicas": 1, "engine": {"env": [{"name": "A", "value": "b"}]}}, 1,
     "this edit restarts 1 pod because spec.engine.env changed and ends 1 pod"),
    ({"engine": {"env": [{"name": "A", "value": "a"}]}}, {"engine": {"env": [{"name": "A", "value": "b"}]}}, 1,
     "this edit restarts 2 pods because spec.engine.env[A].value changed"),
    ({}, {"model": {"source": {"pvc": {"claimName": "models"}}}}, 1,
     "this edit restarts 2 pods because spec.model.source.hf.repo and spec.model.source.pvc.claimName changed"),
    ({}, {"template": {"spec": {"nodeSelector": {"a.b/c": "d"}}}, "replicas": 2, "rollout": {"strategy": "Recycle"}}, 1,
     "this edit restarts 2 pods because spec.template.spec.nodeSelector[a.b/c] changed"),
    ({"suspend": True}, {"suspend": True, "engine": {"blockSize": 32}}, 0,
     "this edit restarts nothing, for no pod runs; the next pods get spec.engine.blockSize"),
    ({"replicas": None, "autoscaling": {"minReplicas": 3, "maxReplicas": 9}},
     {"replicas": None, "autoscaling": {"minReplicas": 3, "maxReplicas": 9}, "engine": {"dtype": "float16"}}, 1,
     "this edit restarts 3 pods because spec.engine.dtype changed"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "code", "sentence"), CHANGES)
def test_an_edit_says_which_pods_restart_and_why(
    tmp_path: Path, before: Body, after: Body, code: int, sentence: str
) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(yaml.safe_dump(service(**before)))
    said = with_file("render", service(**after), "--against", old)
    assert said.code == code
    assert sentence in said.out.splitlines()
    told = with_file("render", service(**after), "--against", old, "-o", "json").json
    assert (told["sentence"], bool(told["restarts"])) == (sentence, bool(code))


def test_the_children_that_change_are_named_with_their_fields(tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    old.write_text(yaml.safe_dump(service()))
    edited = service(engine={"maxModelLen": 4096}, networkPolicy={"enabled": True}, replicas=1)
    lines = with_file("render", edited, "--against", old).out.splitlines()
    assert lines[:5] == [
        "changed  Deployment chat",
        "           spec.replicas",
        "           spec.template.spec.containers[engine].args",
        "created  NetworkPolicy chat",
        "removed  PodDisruptionBudget chat",
    ]
    assert lines[-1].startswith("main of Qwen/Qwen3-8B is looked up anew")


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("/nowhere.yaml", "cannot be read"),
        ("OTHER", "holds no LLMService named chat, but talk"),
        ("BROKEN", "the old one"),
        ("cluster", "no cluster to talk to"),
    ],
)
def test_what_there_is_nothing_to_compare_with_gets_one_line(tmp_path: Path, against: str, said: str) -> None:
    files = {"OTHER": service("talk"), "BROKEN": service(strange=1)}
    if against in files:
        file = tmp_path / "old.yaml"
        file.write_text(yaml.safe_dump(files[against]))
        against = str(file)
    assert said in refused(with_file("render", service(), "--against", against))


# --- preflight -----------------------------------------------------------------------------------------------
def levels(said: Said, name: str = "chat") -> dict[str, tuple[str, str]]:
    return {one["about"]: (one["level"], f"{one['said']}; {one['next']}") for one in said.json[name]}


def test_every_wrong_field_is_named_at_once_with_the_nearest() -> None:
    body = service(
        engine={"maxModelLenn": 4096}, replicas=-1, expos={}, autoscaling={"behaviour": {}, "maxReplicas": 1}
    )
    said = with_file("preflight", body, "--offline", "-o", "json")
    assert said.code == 1
    found = levels(said)
    assert {level for level, _ in found.values()} == {"fail"}
    for path, nearest in (
        ("engine.maxModelLenn", "maxModelLen"),
        ("expos", "expose"),
        ("autoscaling.behaviour", "behavior"),
    ):
        assert f"did you mean {nearest}?" in found[f"spec.{path}"][1]
    assert "spec.replicas" in found


def test_a_misspelt_flag_fails_and_one_of_another_image_is_a_warning() -> None:
    args = ["--max-model-length", "4096"]
    ours = levels(with_file("preflight", service(engine={"args": args}), "--offline", "-o", "json"))
    assert ours["spec.engine.args"] == (
        "fail",
        "unknown flag --max-model-length; did you mean --max-model-len?; ",
    )
    image = {"image": "vllm/vllm-openai:v0.9.1", "runtime": "VLLM", "args": args}
    theirs = levels(with_file("preflight", service(engine=image), "--offline", "-o", "json"))
    assert theirs["spec.engine.args[0]"][0] == "warn"


def test_a_model_that_does_not_fit_fails_and_an_unknown_one_cannot_be_told() -> None:
    small = service(accelerator={"count": 1, "memoryPerDevice": "8Gi"})
    said = with_file("preflight", small, "--offline")
    assert said.code == 1
    assert "DoesNotFit" in said.out
    assert max(map(len, said.out.splitlines())) <= 100
    strange = service(model={"source": {"hf": {"repo": "org/strange"}}})
    told = with_file("preflight", strange, "--offline", "-o", "json")
    assert (told.code, levels(told)["memory"][0]) == (0, "warn")


def test_offline_nobody_is_asked() -> None:
    assert "cluster" not in levels(with_file("preflight", service(), "--offline", "-o", "json"))


# --- all of them ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plan"], "name a model, or a manifest with -f"),
        (["render"], "-f"),
        (["convert"], "-f"),
        (["status"], "'name'"),
        (["status", "chat"], "no cluster to talk to"),
        (["preflight", "-f", "/nowhere"], "cannot be read"),
        (["plan", "Qwen3-8B", "-o", "xml"], "xml"),
        (["plans"], "plans"),
    ],
)
def test_a_wrong_command_line_gets_one_line_and_exit_code_2(words: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "llmservice_operator.cli.people", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert said in done.stderr


@pytest.mark.parametrize(
    "server", ["http://127.0.0.1:9", "", "{"], ids=["no answer", "no file", "a broken file"]
)
@pytest.mark.parametrize("words", [["render", "--against", "cluster"], ["preflight"], ["status", "chat"]])
def test_a_cluster_that_cannot_be_asked_is_one_line(tmp_path: Path, server: str, words: list[str]) -> None:
    done = beside(
        tmp_path, server, *words, *([] if words[0] == "status" else ["-f", tmp_path / "service.yaml"])
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert (
        "no answer from the API server" if server.startswith("http") else str(tmp_path / "config")
    ) in done.stderr
    assert words[0] != "preflight" or "--offline checks the manifest alone" in done.stderr


@pytest.mark.parametrize("words", [["plan"], ["render"], ["preflight", "--offline"]])
def test_what_needs_no_cluster_asks_none(tmp_path: Path, words: list[str]) -> None:
    done = beside(tmp_path, "http://127.0.0.1:9", *words, "-f", tmp_path / "service.yaml", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def beside(folder: Path, server: str, *words: object) -> subprocess.CompletedProcess[str]:
    """In a process of its own, for the library that reads a kubeconfig looks at its place once."""
    (folder / "service.yaml").write_text(yaml.safe_dump(service(engine={"maxModelLen": 8192})))
    if server:
        (folder / "config").write_text(kubeconfig(server) if server.startswith("http") else server)
    return subprocess.run(
        [sys.executable, "-m", "llmservice_operator.cli.people", *map(str, words)],
        env={**os.environ, "KUBECONFIG": str(folder / "config")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def kubeconfig(server: str) -> str:
    return yaml.safe_dump({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": server}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}], "users": [{"name": "x", "user": {}}],
    })  # fmt: skip


def test_what_is_offline_imports_neither_torch_nor_what_talks_to_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    file.write_text(yaml.safe_dump(service(engine={"maxModelLen": 8192})))
    code = (
        "import sys; from llmservice_operator.cli import people\n"
        f"sys.argv = ['llmservice', 'preflight', '--offline', '-f', {str(file)!r}]\n"
        "try: people.main()\nexcept SystemExit as end: assert not end.code\n"
        "print([name for name in ('torch', 'kubernetes_asyncio', 'aiohttp', 'kopf') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_it_is_a_plugin_of_kubectl_too() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts["kubectl-llmsvc"] == scripts["llmservice"] == "llmservice_operator.cli.people:main"


def test_a_manifest_is_read_as_the_operator_reads_it() -> None:
    wanted = manifests.parse(service())
    assert wanted == spec.parse(manifests.stored(service()))
