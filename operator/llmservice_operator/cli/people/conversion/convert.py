"""The parts put together."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from llmservice_operator.api import names
from llmservice_operator.cli.people.conversion import around, model, pod, workload
from llmservice_operator.cli.people.conversion.notes import TITLES, Fate, Note, named
from llmservice_operator.cli.people.conversion.workload import Body

COLUMNS = 110  # of the comments


@dataclass(frozen=True, slots=True)
class Converted:
    body: Body
    sources: tuple[str, ...]  # what it was made from
    notes: tuple[Note, ...]

    def comments(self) -> str:
        """The notes as comments of a manifest."""
        lines = [f"From {', '.join(self.sources)}."]
        for fate in Fate:
            told = [note for note in self.notes if note.fate is fate]
            if told:
                lines += ["", TITLES[fate]]
                for note in told:
                    text = f"{note.at}: {note.said}"
                    lines += textwrap.wrap(
                        text,
                        COLUMNS - 6,
                        initial_indent="- ",
                        subsequent_indent="  ",
                        break_long_words=False,
                        break_on_hyphens=False,
                    )
        return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def convert(
    bodies: Iterable[Body], *, name: str | None = None, bundled: bool = False, managed: bool = False
) -> Converted:
    """``name``: of the LLMService, and which Deployment where there are several. ``bundled``: by this project's engine
    instead of the image. ``managed``: with a cache of the operator's own instead of the claim that is there.

    Raises:
        NotConvertible: there is no vLLM, or its model is out of reach.
    """
    work = workload.find(bodies, name)
    before = list(work.others)
    called = name or str(work.metadata["name"])
    spec: Body = {"model": model.model(work)}
    is_copied = "pvc" not in spec["model"]["source"]
    kept = model.cache(work, managed=managed) if is_copied else None
    spec["accelerator"] = pod.accelerator(work)
    spec["engine"] = pod.engine(work, bundled=bundled)
    scaled = around.autoscaling(work)
    deadline, drained = pod.startup(work), pod.drain(work)
    spec |= {
        "resources": pod.resources(work),
        "cache": kept,
        "replicas": around.replicas(work, scaled=scaled is not None),
        "autoscaling": scaled,
        "startup": deadline,
        "expose": around.service(work, called),
        "availability": around.availability(work),
        "rollout": around.rollout(work) | ({"drainTimeout": drained} if drained else {}),
    }
    devices = int(spec["engine"].get("tensorParallelSize") or max(1, spec["accelerator"]["count"]))
    spec["template"] = pod.template(work, devices)
    if called == work.metadata["name"]:
        work.notes.replaced(
            work.at, "the operator's Deployment has this name: delete the old one first, or give --name"
        )
    metadata = around.metadata(work, called)
    taken = [named(body) for body in before if body not in work.others]
    around.rest(work)
    order = (
        "model",
        "engine",
        "accelerator",
        "resources",
        "cache",
        "replicas",
        "autoscaling",
        "startup",
        "rollout",
        "expose",
        "availability",
        "template",
    )
    body = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": metadata,
        "spec": {key: spec[key] for key in order if spec.get(key) not in (None, {}, [])},
    }
    return Converted(body, (work.at, *taken), tuple(work.notes.all))
