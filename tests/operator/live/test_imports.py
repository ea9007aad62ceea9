"""The operator's image carries no torch."""

from __future__ import annotations

import subprocess
import sys

BLOCKED = "import sys; sys.modules |= dict.fromkeys(('torch', 'transformers', 'triton', 'numpy')); "


def test_the_operator_imports_without_torch() -> None:
    code = BLOCKED + "import llmservice_operator.cli, llmservice_operator.watch.operator"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
