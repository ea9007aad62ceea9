"""``python -m llmservice_engine.cli``: the same as ``llmservice-engine``."""

import sys

from llmservice_engine.cli.main import main

sys.exit(main())
