"""The process that holds a cluster: starts its components in stages, restarts what dies once all is ready.

It is process 1 of the node's namespaces (``unshare`` ends it when it ends itself, and it takes every process
along), or a plain detached process for a control plane. ``python -m e2e.cluster.supervisor STATE_FOLDER``.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from e2e.cluster import namespace, plan, state

READY_WITHIN = 90.0  # seconds for one stage
RESTART_AFTER = 1.0  # seconds
PR_SET_PDEATHSIG = 1

Phase = Literal["starting", "ready", "failed"]


@dataclass(slots=True)
class Progress:
    """``progress.json``."""

    phase: Phase = "starting"
    waiting_for: list[str] = field(default_factory=list)
    failed: str = ""  # the component
    reason: str = ""
    restarts: dict[str, int] = field(default_factory=dict)


class StartFailed(Exception):
    def __init__(self, component: str, reason: str) -> None:
        self.component, self.reason = component, reason
        super().__init__(f"{component} {reason}")


class Supervisor:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._plan = plan.read(folder / "plan.json")
        self._progress = Progress()
        self._running: dict[int, plan.Component] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)

    def run(self) -> None:
        """Start everything, then keep it running until a signal ends this process."""
        try:
            if self._plan.node:
                namespace.prepare(self._plan.node)
            for stage in self._plan.stages:
                self._start_stage(stage)
        except StartFailed as error:
            self._say(Progress("failed", failed=error.component, reason=error.reason))
            return
        except (OSError, subprocess.CalledProcessError) as error:
            self._say(Progress("failed", failed="namespace", reason=f"could not be set up: {error}"))
            return
        self._say(Progress("ready"))
        self._keep_running()

    def _start_stage(self, stage: tuple[plan.Component, ...]) -> None:
        for component in stage:
            self._start(component)
        waiting = {component.name: component for component in stage}
        deadline = time.monotonic() + READY_WITHIN
        while waiting:
            self._say(Progress("starting", waiting_for=list(waiting)))
            for component, code in self._reap():
                if component.ends and code == 0:
                    del waiting[component.name]
                else:
                    raise StartFailed(component.name, f"ended with {code} while the cluster came up")
            for name in [name for name, one in waiting.items() if not one.ends and _is_ready(one.ready)]:
                del waiting[name]
            if time.monotonic() > deadline:
                raise StartFailed(next(iter(waiting)), f"was not ready after {READY_WITHIN:.0f} s")
            if waiting:
                time.sleep(0.05)

    def _keep_running(self) -> None:
        while True:
            for component, code in self._reap(blocking=True):
                count = self._progress.restarts.get(component.name, 0) + 1
                self._progress.restarts[component.name] = count
                self._say(self._progress)
                print(f"{component.name} ended with {code}; start {count + 1}", flush=True)
                time.sleep(RESTART_AFTER)
                self._start(component)

    def _reap(self, blocking: bool = False) -> list[tuple[plan.Component, int]]:
        """The components that have ended. Orphans of a node's pods end here too, and are forgotten."""
        ended: list[tuple[plan.Component, int]] = []
        while self._running:
            pid, status = os.waitpid(-1, 0 if blocking and not ended else os.WNOHANG)
            if pid == 0:
                break
            component = self._running.pop(pid, None)
            if component:
                ended.append((component, os.waitstatus_to_exitcode(status)))
        return ended

    def _start(self, component: plan.Component) -> None:
        def end_with_parent() -> None:
            self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        with (self._folder / "logs" / f"{component.name}.log").open("ab") as log:
            process = subprocess.Popen(
                component.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, state.COMPONENT_MARK: component.name},
                preexec_fn=end_with_parent,
            )
        self._running[process.pid] = component
        process.returncode = 0  # this class waits for it, not Popen

    def _say(self, progress: Progress) -> None:
        if progress is not self._progress and asdict(progress) == asdict(self._progress):
            return
        self._progress = progress
        state.write_json(self._folder / "progress.json", asdict(progress))


def _is_ready(ready: str | None) -> bool:
    if ready is None:
        return True
    if ready.startswith("/"):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(ready) == 0
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unverified)
    )
    try:
        with opener.open(ready, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Supervisor(Path(sys.argv[1])).run()


if __name__ == "__main__":
    main()
