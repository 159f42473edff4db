"""What a plan should say aloud: an image that cannot run the GPU, a GPU that is about to go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gputrain import catalog
from gputrain.catalog import Stage
from gputrain.planning.candidates import Candidate
from gputrain.quota import Verdict
from gputrain.spec import TrainingSpec


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
    return tuple(dict.fromkeys((*_unread(sold), *found, *_of_outputs(spec, is_sold=bool(sold)))))


def _unread(sold: Sequence[Candidate]) -> Iterator[str]:
    """A backend of whose places nothing could be read: no quota in such a plan means anything."""
    for backend in dict.fromkeys(one.backend for one in sold):
        facts = [one.fact for one in sold if one.backend == backend]
        if all(one.verdict is Verdict.UNKNOWN and one.note for one in facts):
            yield f"of {backend} nothing could be read: {facts[0].note}; `gputrain doctor` says what mends it"


def _of_outputs(spec: TrainingSpec, *, is_sold: bool) -> Iterator[str]:
    """A machine that is rented goes away with all that a script wrote beside itself."""
    if is_sold and not (spec.output_dir or spec.checkpoint_dir or spec.keep_outputs):
        yield (
            "what the script writes beside itself is lost with the machine: "
            "write below $GPUTRAIN_OUTPUT_DIR, or give keep_outputs=True"
        )


def _of_shape(spec: TrainingSpec, shape: catalog.Shape) -> Iterator[str]:
    if spec.image:
        yield from map(str, catalog.image_faults(spec.image, shape))
    life = shape.gpu.lifecycle
    if life.stage is Stage.DEPRECATED:
        instead = f"; take {' or '.join(shape.gpu.instead)} instead" if shape.gpu.instead else ""
        yield f"{shape.gpu.kind} ends on {life.ends}{instead}"
