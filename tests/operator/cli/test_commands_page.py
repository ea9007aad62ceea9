"""docs/guides/commands.md shows what the commands print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "guides" / "commands.md"
BLOCKS = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```", PAGE.read_text(), re.M | re.S)


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command[:60] for command, _ in BLOCKS])
def test_the_page_shows_what_a_command_prints(command: str, shown: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "KUBECONFIG": "/nowhere"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout + done.stderr == shown
