"""Apply → Ready → streamed answer → edit → delete, on real pods."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from e2e import model, target
from e2e.kubectl import CommandFailed, Kubectl, until

ROOT = Path(__file__).resolve().parent.parent.parent
SEEDS = ROOT.parent / "shared" / "seeds"


def ask(url: str, question: str = model.QUESTION, **more: object) -> httpx.Response:
    messages = [{"role": "user", "content": question}]
    body = {"model": "smollm2", "messages": messages, "max_tokens": 24, "temperature": 0, **more}
    return httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)


def test_the_projects_own_client_streams_a_right_answer(served: Kubectl) -> None:
    with served.port_forward("service/smollm2", 0) as url:
        chat = [sys.executable, str(ROOT / "examples" / "chat.py"), "--base-url", url, model.QUESTION]
        done = subprocess.run(chat, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert "Paris" in done.stdout
    assert re.search(r"tokens", done.stdout.splitlines()[-1])


def seed_article(of: str) -> str:
    """The seed article in which ``of`` occurs, or a test that says that it is absent."""
    articles = [path.read_text() for path in sorted(SEEDS.glob("*.txt"))] if SEEDS.is_dir() else []
    found = next((article for article in articles if of in article), None)
    if found is None:
        pytest.skip(
            "the seed articles are not beside this checkout (../shared/seeds): their clients cannot be run"
        )
    return found


def test_the_second_seed_articles_client_runs_unmodified(served: Kubectl, tmp_path: Path) -> None:
    article = seed_article("class VllmClient")
    code = re.search(
        r"^import time\nimport json\n.*?^        print\(f\"\\nFailed to connect[^\n]*$", article, re.M | re.S
    )
    assert code, "the article's script was not found"
    script = tmp_path / "client.py"
    script.write_text(code[0])
    with served.port_forward("service/smollm2", 8000):
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False
        )
    assert "Stream session finished successfully." in done.stdout, done.stdout + done.stderr
    assert "Time to First Token (TTFB) established" in done.stderr
    assert int(re.search(r"Tokens: (\d+)", done.stderr)[1]) > 5  # type: ignore[index]


def test_the_first_seed_articles_curl_is_answered(served: Kubectl, tmp_path: Path) -> None:
    article = seed_article("Testing Inference via OpenAI-Compatible API")
    curl = re.search(r"^curl http://vllm-llama3-svc.*?\}'$", article, re.M | re.S)
    assert curl, "the article's curl was not found"
    with served.port_forward("service/smollm2", 0) as url:
        host = "http://vllm-llama3-svc.ai-workloads.svc.cluster.local:8000"
        command = curl[0].replace(host, url)  # the Service's name is the article's, ours is the object's
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False
        )
    assert '"finish_reason"' in done.stdout, done.stdout + done.stderr


def test_a_pod_reaches_the_service_by_its_name(served: Kubectl) -> None:
    pod = served.items("pods", "-l", "app.kubernetes.io/instance=smollm2")[0]["metadata"]["name"]
    code = (
        "import urllib.request as u; "
        "print(u.urlopen('http://smollm2.served.svc.cluster.local:8000/v1/models', timeout=10).read().decode())"
    )
    said = served("exec", pod, "-c", "engine", "--", sys.executable, "-c", code)
    assert "meta-llama/Meta-Llama-3-8B-Instruct" in said


def test_bad_requests_are_refused_in_openais_shape_and_the_next_is_served(served: Kubectl) -> None:
    with served.port_forward("service/smollm2", 0) as url:
        not_json = httpx.post(f"{url}/v1/chat/completions", content=b"{x}", timeout=10)
        unknown = ask(url, model="nope")
        too_long = ask(url, "word " * 9000)
        after = ask(url)
    for answer, status in ((not_json, 400), (unknown, 404), (too_long, 400)):
        assert answer.status_code == status, answer.text
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert unknown.json()["error"]["code"] == "model_not_found"
    assert too_long.json()["error"]["code"] == "context_length_exceeded"
    assert "Paris" in after.json()["choices"][0]["message"]["content"]


def test_get_and_describe_read_well(served: Kubectl) -> None:
    table = served("get", "llmsvc")
    assert max(map(len, table.splitlines())) <= 120
    assert "smollm2" in table
    assert "True" in table
    described = served("describe", "llmsvc", "smollm2")
    for word in ("Observed Generation", "Ready", "Available", "http://smollm2.served.svc"):
        assert word in described


def test_applying_the_same_manifest_again_writes_nothing(cluster: target.Target, served: Kubectl) -> None:
    def versions() -> dict[str, str]:
        kinds = ("deployments", "services", "controllerrevisions", "llmsvc")
        return {
            f"{kind}/{item['metadata']['name']}": item["metadata"]["resourceVersion"]
            for kind in kinds
            for item in served.items(kind)
        }

    before = versions()
    served.apply(cluster.manifest())
    time.sleep(10)
    assert versions() == before


def test_scale_edit_and_delete(cluster: target.Target, namespace: Kubectl) -> None:
    namespace.apply(cluster.manifest())
    namespace("wait", "--for=condition=Ready", "llmsvc/smollm2", "--timeout=120s", timeout=130)

    namespace("scale", "llmsvc", "smollm2", "--replicas=2")
    until(lambda: namespace.get("llmsvc", "smollm2")["status"].get("readyReplicas"), lambda n: n == 2, 90)
    namespace("wait", "--for=condition=Ready", "llmsvc/smollm2", "--timeout=60s")
    namespace("scale", "llmsvc", "smollm2", "--replicas=1")

    change = '{"spec":{"engine":{"maxModelLen":2048}}}'
    namespace("patch", "llmsvc", "smollm2", "--type=merge", "-p", change)
    until(
        lambda: namespace.get("llmsvc", "smollm2"),
        lambda it: (
            it["status"]["observedGeneration"] == it["metadata"]["generation"]
            and {c["type"]: c["status"] for c in it["status"]["conditions"]}.get("Ready") == "True"
        ),
        120,
    )
    with namespace.port_forward("service/smollm2", 0) as url:
        assert httpx.get(f"{url}/v1/models", timeout=10).json()["data"][0]["max_model_len"] == 2048

    namespace("delete", "llmsvc", "smollm2", "--timeout=30s")
    selector = ("-l", "app.kubernetes.io/managed-by=llmservice-operator")
    for kind in ("deployments", "services", "controllerrevisions", "pods"):
        until(lambda kind=kind: namespace.items(kind, *selector), lambda left: not left, 30)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"spec": {"replicaz": 1}}, "spec.replicaz"),
        ({"spec": {"accelerator": {"count": -1}}}, "spec.accelerator.count"),
        ({"spec": {"model": {"source": {"pvc": None}}}}, "spec.model.source"),
        ({"spec": {"model": {"source": {"hf": {"repo": "a/b"}}}}}, "spec.model.source"),
        ({"spec": {"engine": {"args": ["--port=9"]}}}, "port"),
    ],
    ids=["unknown-field", "negative-count", "no-source", "two-sources", "owned-flag"],
)
def test_a_bad_manifest_is_refused_at_apply_with_the_fields_path(
    cluster: target.Target, served: Kubectl, change: dict[str, object], said: str
) -> None:
    broken = cluster.manifest(**{**change, "metadata": {"name": "broken"}})
    with pytest.raises(CommandFailed) as refusal:
        served.apply(broken)
    assert said in str(refusal.value)
