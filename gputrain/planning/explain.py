"""A plan in plain words, and what it should say aloud: an image that cannot run the GPU, say. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from gputrain import catalog
from gputrain.catalog import Service, Stage
from gputrain.planning.candidates import Candidate, is_open
from gputrain.quota import Verdict, contradictions, deciding
from gputrain.spec import TrainingSpec, format_duration


def explain(plan: Any) -> Iterator[str]:
    """A `Plan` in sentences: the best candidate first, then the others, then what cannot run."""
    open_ones = sorted(filter(is_open, plan.candidates), key=plan.late.__contains__)
    short = [one for one in plan.candidates if not is_open(one)]
    if open_ones:
        yield from _best(plan.spec.title, open_ones)
    elif short:
        yield f"{plan.spec.title} would not start anywhere: every quota is too small."
    else:
        yield f"{plan.spec.title} cannot run as asked."
    yield from dict.fromkeys(_short_sentence(one) for one in short)
    if plan.uploads:
        yield f"Code: {plan.uploads}."
    if plan.outputs:
        yield f"Outputs: {plan.outputs}."
    yield from (f"It would be refused: {one}" for one in plan.faults)
    yield from (f"Warning: {one}." for one in plan.warnings)
    for one in plan.asked_for:
        remedy = f" What would work: {one.fix}." if one.fix else ""
        yield f"Not {one.subject} on {one.backend}: {one.why}.{remedy}"
    yield f"{plan.age[0].upper()}{plan.age[1:]}."


def _best(title: str, ones: Sequence[Candidate]) -> Iterator[str]:
    best = ones[0]
    sold = f" as {best.provisioning_model.value}" if best.provisioning_model else ""
    yield f"{title} would run on {best.gpus} ({best.machine_type}){sold} at {best.place}, by {best.backend}."
    yield _cost_sentence(best)
    if best.network is not None:
        note = f" ({best.network.note})" if best.network.note else ""
        yield f"Its GPUs talk by {best.network.name}, {best.network.gbps_per_gpu:g} Gbps each at most{note}."
    if best.provisioning_model is not None:
        yield from _quota_sentences(best)
        yield from _place_sentences(best)
    if more := len(ones) - 1:
        others = "1 more way is tried" if more == 1 else f"{more} more ways are tried in order"
        yield f"If there is no room, {others}, {_ways(ones[1:])}."


def _ways(ones: Sequence[Candidate]) -> str:
    """``3 spot in us-central1 by compute, then ...``: the choices, in order."""
    groups: dict[str, int] = {}
    for one in ones:
        model = f" {one.provisioning_model.value}" if one.provisioning_model else ""
        key = f"{one.gpu_count} x {one.gpu}{model} by {one.backend}" if one.gpu else f"CPU by {one.backend}"
        groups[key] = groups.get(key, 0) + 1
    return ", then ".join(f"{key} at {count} place{'s' * (count != 1)}" for key, count in groups.items())


def _quota_sentences(one: Candidate) -> Iterator[str]:
    reading = deciding(one.fact.readings)
    if reading is None:
        yield "Whether the quota is enough is unknown: no API was asked, or none answered."
    elif one.fact.verdict is Verdict.UNKNOWN:
        yield f"Whether the quota is enough is unknown: no API reported {reading.metric} in {reading.where}."
    else:
        yield f"The quota is enough: {reading}."
    for group in contradictions(one.fact.readings):
        yield f"Two APIs differ, and the stricter is obeyed: {'; '.join(map(str, group))}."


def _short_sentence(one: Candidate) -> str:
    reading = deciding(one.fact.readings)
    sold = f" as {one.provisioning_model.value}" if one.provisioning_model else ""
    what = f"Not tried: {one.gpus}{sold} in {one.place} by {one.backend}"
    if reading is None:
        return f"{what}: its quota is too small."
    return f"{what}: {reading}. What would work: {reading.fix}, or fewer GPUs."


def _place_sentences(one: Candidate) -> Iterator[str]:
    if one.fact.availability:
        yield f"{one.place} has such machines ({one.fact.availability})."
    if one.fact.obtainability is not None:
        yield f"The chance to get them now is put at {one.fact.obtainability:.0%}."
    if one.fact.note:
        yield f"{one.fact.note[0].upper()}{one.fact.note[1:]}."


def _cost_sentence(one: Candidate) -> str:
    ends = f"it ends after {format_duration(one.max_run_duration)} at the latest"
    if one.price is None:
        return f"Its price is unknown; {ends}."
    if one.price.usd_h == 0:
        return f"It costs nothing here; {ends}."
    source = f"({one.price.source}, {one.price.date})"
    if one.cost_at_most_usd is None:
        left_out = " and ".join(one.price.leaves_out)
        return f"It costs ${one.price_usd_h:,.2f} an hour {source} and, unknown, {left_out}; {ends}."
    return f"It costs ${one.price_usd_h:,.2f} an hour {source}, at most ${one.cost_at_most_usd:,.2f}; {ends}."


_STAYS = "the image's torch stays: where {0} wants another version, it is refused before the ranks start"
_HEAVY = "{0} brings some gigabytes to every node, on the GPUs' time: an image that has it is quicker"
HEAVY = {
    "torch": _STAYS,
    "torchvision": _STAYS,
    "torchaudio": _STAYS,
    "vllm": _STAYS,
    "xformers": _STAYS,
    "flash-attn": "{0} is compiled on every node, for up to an hour, unless a wheel for this torch is named",
    "apex": "{0} is compiled on every node, for many minutes",
    "tensorflow": _HEAVY,
    "jax": _HEAVY,
}
"""Requirement -> what is said of it. Sources: the packages' own metadata and pages, by general knowledge."""


def warnings(spec: TrainingSpec, candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Sentences of warning about the candidates, each once, in their order. Pure."""
    sold = [one for one in candidates if one.gpu and one.provisioning_model]
    shapes = dict.fromkeys((one.backend, one.gpu, one.gpu_count, one.machine_type) for one in sold)
    found = (
        warning
        for backend, gpu, count, machine_type in shapes
        for shape in catalog.shapes(gpu, count, machine_type=machine_type)
        for warning in _of_shape(spec, shape, _SERVICES.get(backend))
    )
    slow = (one.network.warning for one in sold if one.network and one.network.warning)
    of_spec = (*_of_outputs(spec), *_of_requirements(spec), *_of_image(spec, sold)) if sold else ()
    return tuple(dict.fromkeys((*_unread(sold), *found, *slow, *of_spec)))


def _unread(sold: Sequence[Candidate]) -> Iterator[str]:
    """A backend of whose places nothing could be read: no quota in such a plan means anything."""
    for backend in dict.fromkeys(one.backend for one in sold):
        facts = [one.fact for one in sold if one.backend == backend]
        if all(one.verdict is Verdict.UNKNOWN and one.note for one in facts):
            yield f"{backend}: could not read quotas ({facts[0].note}). Run `gputrain doctor`"


def _of_outputs(spec: TrainingSpec) -> Iterator[str]:
    """A machine that is rented goes away with all that a script wrote beside itself."""
    if not (spec.output_dir or spec.checkpoint_dir or spec.keep_outputs):
        yield (
            "what the script writes beside itself is lost with the machine: "
            "write below $GPUTRAIN_OUTPUT_DIR, or give keep_outputs=True"
        )


def _of_image(spec: TrainingSpec, sold: Sequence[Candidate]) -> Iterator[str]:
    if spec.runs_image and any(one.backend == Service.VERTEX.value for one in sold):
        yield (
            "on Vertex AI nothing of gputrain is in an image that runs as it is: if the answer to a create is"
            " lost, the job may run twice, and a notice does not stop all ranks together"
        )


def _of_requirements(spec: TrainingSpec) -> Iterator[str]:
    """What takes the time of GPUs that are paid for, or cannot be had beside the image's own."""
    for one in spec.requirements:
        name = re.split(r"[^A-Za-z0-9._-]", one.strip(), maxsplit=1)[0].lower().replace("_", "-")
        if name in HEAVY:
            yield HEAVY[name].format(name)  # not all of it: an address may hold a password


_SERVICES = {service.value: service for service in Service}
"""By the names of the backends that run on them."""


def _of_shape(spec: TrainingSpec, shape: catalog.Shape, service: Service | None) -> Iterator[str]:
    if spec.image_name:
        yield from map(str, catalog.image_faults(spec.image_name, shape, service=service))
    life = shape.gpu.lifecycle
    if life.stage is Stage.DEPRECATED:
        instead = f"; take {' or '.join(shape.gpu.instead)} instead" if shape.gpu.instead else ""
        yield f"{shape.gpu.kind} ends on {life.ends}{instead}"
