"""A typed chat to what the engine is asked, and to how its answer is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmservice_planner.settings import EngineSettings

from llmservice_engine.api import admission, conversation, problem, structured, tool_use
from llmservice_engine.api.admission import Admitted
from llmservice_engine.api.chat_reading import Reading
from llmservice_engine.api.schema import ChatRequest
from llmservice_engine.codec.codec import Codec
from llmservice_engine.codec.tools.interface import call_id

if TYPE_CHECKING:
    from llmservice_engine.engine import Engine


def admit(
    request: ChatRequest, codec: Codec, engine: Engine, settings: EngineSettings
) -> tuple[Admitted, Reading]:
    """Raises Problem."""
    several = request.parallel_tool_calls is not False
    use = tool_use.choose(request.tools, request.tool_choice, several=several, settings=settings)
    prompt = conversation.prompt(request, use, codec, settings)
    if not prompt.ids:
        raise problem.bad_field("messages", "the chat template makes an empty prompt of these messages")
    schema = use.schema()
    constraint = None if schema is None else structured.of_schema(schema, "tools", codec)
    admitted = admission.chat(request, prompt.ids, codec, engine, constraint)
    formats = codec.formats
    reading = Reading(
        tool_use.readers(use, formats, prompt.text, continued=bool(request.continue_final_message)),
        use.mode,
        formats.tools.new_id if formats.tools else call_id,
        reasons=formats.reasoning is not None,
        include_reasoning=request.include_reasoning is not False,
    )
    return admitted, reading
