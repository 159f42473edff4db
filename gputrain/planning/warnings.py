"""What a plan should say aloud: an image that cannot run the GPU, a GPU that is about to go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gputrain import catalog
from gputrain.catalog import Stage
from gputrain.planning.candidates import Candidate
from gputrain.quota import Verdict
from gputrain.spec import TrainingSpec

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
    shapes = dict.fromkeys((one.gpu, one.gpu_count, one.machine_type) for one in sold)
    found = (
        warning
        for gpu, count, machine_type in shapes
        for shape in catalog.shapes(gpu, count, machine_type=machine_type)
        for warning in _of_shape(spec, shape)
    )
    of_spec = (*_of_outputs(spec), *_of_requirements(spec)) if sold else ()
    return tuple(dict.fromkeys((*_unread(sold), *found, *of_spec)))


def _unread(sold: Sequence[Candidate]) -> Iterator[str]:
    """A backend of whose places nothing could be read: no quota in such a plan means anything."""
    for backend in dict.fromkeys(one.backend for one in sold):
        facts = [one.fact for one in sold if one.backend == backend]
        if all(one.verdict is Verdict.UNKNOWN and one.note for one in facts):
            yield f"of {backend} nothing could be read: {facts[0].note}; `gputrain doctor` says what mends it"


def _of_outputs(spec: TrainingSpec) -> Iterator[str]:
    """A machine that is rented goes away with all that a script wrote beside itself."""
    if not (spec.output_dir or spec.checkpoint_dir or spec.keep_outputs):
        yield (
            "what the script writes beside itself is lost with the machine: "
            "write below $GPUTRAIN_OUTPUT_DIR, or give keep_outputs=True"
        )


def _of_requirements(spec: TrainingSpec) -> Iterator[str]:
    """What takes the time of GPUs that are paid for, or cannot be had beside the image's own."""
    for one in spec.requirements:
        name = re.split(r"[^A-Za-z0-9._-]", one.strip(), maxsplit=1)[0].lower().replace("_", "-")
        if name in HEAVY:
            yield HEAVY[name].format(name)  # not all of it: an address may hold a password


def _of_shape(spec: TrainingSpec, shape: catalog.Shape) -> Iterator[str]:
    if spec.image:
        yield from map(str, catalog.image_faults(spec.image, shape))
    life = shape.gpu.lifecycle
    if life.stage is Stage.DEPRECATED:
        instead = f"; take {' or '.join(shape.gpu.instead)} instead" if shape.gpu.instead else ""
        yield f"{shape.gpu.kind} ends on {life.ends}{instead}"
