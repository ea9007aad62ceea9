"""The formats by the names that ``--tool-call-parser`` takes. A format is added by a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from llmservice_engine.codec.tools import hermes, llama3_json, mistral, pythonic
from llmservice_engine.codec.tools.interface import ToolFormat

FORMATS: Mapping[str, ToolFormat] = {
    one.name: one for one in (hermes.FORMAT, llama3_json.FORMAT, mistral.FORMAT, pythonic.FORMAT)
}
