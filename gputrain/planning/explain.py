"""A plan in plain words, and what it should say aloud: an image that cannot run the GPU, say. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

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
    for one in plan.refusals:
        fix = f" What would work: {one.fix}." if one.fix else ""
        yield f"Not {one.subject} on {one.backend}: {one.why}.{fix}"
    yield f"{plan.age[0].upper()}{plan.age[1:]}."


def _best(title: str, ones: Sequence[Candidate]) -> Iterator[str]:
    best, fact = ones[0], ones[0].fact
    where = f"{_sold(best)} at {best.place}, by {best.backend}"
    yield f"{title} would run on {best.gpus} ({best.machine_type}){where}."
    yield _cost_sentence(best)
    if best.network is not None:
        note = f" ({best.network.note})" if best.network.note else ""
        yield f"Its GPUs talk by {best.network.name}, {best.network.gbps_per_gpu:g} Gbps each at most{note}."
    if best.provisioning_model is not None:
        yield from _quota_sentences(best)
        if fact.availability:
            yield f"{best.place} has such machines ({fact.availability})."
        if fact.obtainability is not None:
            yield f"The chance to get them now is put at {fact.obtainability:.0%}."
        if fact.note:
            yield f"{fact.note[0].upper()}{fact.note[1:]}."
    groups: dict[str, int] = {}  # the choices, in order
    for one in ones[1:]:
        shape = f"{one.gpu_count} x {one.gpu}{_sold(one, '')}" if one.gpu else "CPU"
        groups[f"{shape} by {one.backend}"] = groups.get(f"{shape} by {one.backend}", 0) + 1
    if groups:
        others = "1 more way is tried" if len(ones) == 2 else f"{len(ones) - 1} more ways are tried in order"
        ways = (f"{key} at {count} place{'s' * (count != 1)}" for key, count in groups.items())
        yield f"If there is no room, {others}, {', then '.join(ways)}."


def _sold(one: Candidate, word: str = " as") -> str:
    return f"{word} {one.provisioning_model.value}" if one.provisioning_model else ""


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
    why = f"{reading}. What would work: {reading.fix}, or fewer GPUs" if reading else "its quota is too small"
    return f"Not tried: {one.gpus}{_sold(one)} in {one.place} by {one.backend}: {why}."


def shortages(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """Each quota that is too small for a candidate, with the fix; the first three."""
    readings = [deciding(one.fact.readings) for one in candidates if not is_open(one)]
    bare = [attrs.evolve(one, read_at=None) for one in readings if one]
    return tuple(dict.fromkeys(f"short: {one}; fix: {one.fix}" for one in bare))[:3]


def _cost_sentence(one: Candidate) -> str:
    ends = f"it ends after {format_duration(one.max_run_duration)} at the latest"
    if one.price is None:
        return f"Its price is unknown; {ends}."
    if one.price.usd_h == 0:
        return f"It costs nothing here; {ends}."
    costs = f"It costs ${one.price_usd_h:,.2f} an hour ({one.price.source}, {one.price.date})"
    if one.cost_at_most_usd is None:
        return f"{costs} and, unknown, {' and '.join(one.price.leaves_out)}; {ends}."
    return f"{costs}, at most ${one.cost_at_most_usd:,.2f}; {ends}."


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
    return tuple(dict.fromkeys(_warnings(spec, sold))) if sold else ()


def _warnings(spec: TrainingSpec, sold: Sequence[Candidate]) -> Iterator[str]:
    for backend in dict.fromkeys(one.backend for one in sold):
        facts = [one.fact for one in sold if one.backend == backend]
        if all(one.verdict is Verdict.UNKNOWN and one.note for one in facts):  # no quota means anything then
            yield f"{backend}: could not read quotas ({facts[0].note}). Run `gputrain doctor`"
    services = {service.value: service for service in Service}  # by the names of backends
    shapes = dict.fromkeys((one.backend, one.gpu, one.gpu_count, one.machine_type) for one in sold)
    for backend, gpu, count, machine_type in shapes:
        for shape in catalog.shapes(gpu, count, machine_type=machine_type):
            if spec.image_name:
                service = services.get(backend)
                yield from map(str, catalog.image_faults(spec.image_name, shape, service=service))
            life = shape.gpu.lifecycle
            if life.stage is Stage.DEPRECATED:
                instead = f"; take {' or '.join(shape.gpu.instead)} instead" if shape.gpu.instead else ""
                yield f"{shape.gpu.kind} ends on {life.ends}{instead}"
    yield from (one.network.warning for one in sold if one.network and one.network.warning)
    if not (spec.output_dir or spec.checkpoint_dir or spec.keep_outputs):
        saved = "write below $GPUTRAIN_OUTPUT_DIR" + ", or give keep_outputs=True" * (not spec.runs_image)
        yield f"what the script writes beside itself is lost with the machine: {saved}"
    for one in spec.requirements:
        name = re.split(r"[^A-Za-z0-9._-]", one.strip(), maxsplit=1)[0].lower().replace("_", "-")
        if name in HEAVY:
            yield HEAVY[name].format(name)  # not all of it: an address may hold a password
    if spec.runs_image and any(one.backend == Service.VERTEX.value for one in sold):
        yield (
            "on Vertex AI nothing of gputrain is in an image that runs as it is: if the answer to a create is"
            " lost, the job may run twice, and a notice does not stop all ranks together"
        )
