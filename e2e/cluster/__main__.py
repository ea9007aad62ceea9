"""``python -m e2e.cluster``: a real Kubernetes on this machine, without Docker."""

from __future__ import annotations

import signal
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from e2e.cluster import build as go_modules
from e2e.cluster import launcher, processes, state
from e2e.cluster import packages as debian
from e2e.cluster.errors import ClusterError

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
Name = Annotated[str, typer.Option("--name", help="which cluster")]


class TierName(StrEnum):
    CONTROL_PLANE = "control-plane"
    NODE = "node"


def say(line: str) -> None:
    print(line, flush=True)


@app.command()
def build(only: Annotated[list[str] | None, typer.Option(help="a module; may be repeated")] = None) -> None:
    """Build the Go modules into the cache."""
    go_modules.ensure(only or ())


@app.command()
def packages() -> None:
    """Install the Debian packages that a node and its images need."""
    installed = debian.ensure(debian.NODE | debian.IMAGES)
    say(f"packages: installed {' '.join(installed)}" if installed else "packages: all there")


@app.command()
def up(
    name: Name = "dev",
    tier: TierName = TierName.NODE,
    fake_gpus: Annotated[int, typer.Option(min=0, help="nvidia.com/gpu on the node")] = 0,
) -> None:
    """Bring a cluster up; prints what to type next."""
    started = time.monotonic()
    cluster = launcher.up(name, tier.value, say)
    if fake_gpus:
        launcher.set_fake_gpus(cluster, fake_gpus)
    say(f"{name}: {tier.value} ready in {time.monotonic() - started:.1f} s")
    say(f'  eval "$({sys.executable} -m e2e.cluster env --name {name})"')


@app.command()
def down(name: Name = "dev") -> None:
    """Remove every trace of a cluster."""
    launcher.down(name, say)


@app.command()
def status() -> None:
    """Every cluster: its components, their process ids, how often they were started again."""
    if not state.names():
        say("no clusters")
    for name in state.names():
        at = state.layout(name)
        known, progress = state.read_status(at), launcher.progress(name)
        running = processes.find(at.folder)
        phase = progress.get("phase", "unknown") if running else "dead (`down` removes what is left)"
        say(f"{name}: {known.tier if known else 'not ready'}, {phase}, {known.api if known else ''}")
        first: dict[str, int] = {}
        for pid, component in sorted(running.items()):
            first.setdefault(component or "supervisor", pid)
        for component, pid in first.items():
            restarts = progress.get("restarts", {}).get(component, 0)
            say(f"  {component:<26} pid {pid}" + (f", restarted {restarts}×" if restarts else ""))


@app.command()
def logs(
    component: Annotated[str | None, typer.Argument(help="which; without it, all are listed")] = None,
    name: Name = "dev",
    lines: int = 100,
) -> None:
    """The last lines of a component's log."""
    at = state.layout(name)
    if component is None:
        for path in sorted(at.logs.glob("*.log")):
            say(f"{path.stem:<28} {path}")
        return
    if not (at.logs / f"{component}.log").exists():
        raise ClusterError(f"{name} has no log of {component}")
    for line in launcher.last_lines(at, component, lines):
        say(line)


@app.command()
def kubeconfig(name: Name = "dev") -> None:
    """The path of a running cluster's kubeconfig."""
    say(str(launcher.get(name).kubeconfig))


@app.command()
def env(name: Name = "dev") -> None:
    """Shell lines that put kubectl, helm and the kubeconfig in place."""
    cluster = launcher.get(name)
    say(f"export KUBECONFIG={cluster.kubeconfig}")
    say(f"export PATH={cluster.kubectl.parent}:{cluster.helm.parent}:$PATH")


@app.command("fake-gpus")
def fake_gpus(count: int, name: Name = "dev") -> None:
    """Give the node devices that the scheduler can hand out."""
    launcher.set_fake_gpus(launcher.get(name), count)


@app.command("image-import")
def image_import(archive: Path, name: Name = "dev") -> None:
    """Make an image archive's images known to the node."""
    launcher.import_image(launcher.get(name), archive)


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended politely is like Ctrl-C: clean up
    try:
        app()
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
