"""Images that are made for a job: found when it is planned, built when it is submitted."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from gputrain.backends.base import Backend
from gputrain.catalog import image_faults
from gputrain.errors import GputrainError, SpecError
from gputrain.fields import invalid
from gputrain.spec import Image, TrainingSpec
from gputrain.trainer.plan import Plan

if TYPE_CHECKING:
    from gputrain.images import BuiltImage, ImageBuilder, OnLine

log = logging.getLogger("gputrain")


def named(backends: Mapping[str, Backend], spec: TrainingSpec) -> tuple[TrainingSpec, str, Image | None]:
    """The spec with its image by name; a note on one that is yet to be built, and that image.

    Raises:
        SpecError: a file of the image is not there, or cannot be uploaded.
    """
    first = builder(backends.values())
    if first is None or not isinstance(spec.image, Image):
        return spec, "", None  # a limit of backends without a builder says that they run no containers
    try:
        found = first[1].find(spec.image)
    except SpecError:
        raise
    except GputrainError as error:
        return spec, f"{spec.image.title} could not be looked for: {error}", spec.image
    there = spec.replace(image=found.reference)
    return (there, "", None) if found.digest else (there, str(found), spec.image)


def builder(backends: Iterable[Backend]) -> tuple[str, ImageBuilder] | None:
    """The name of the first of them that keeps images, and where it builds them; None where none does."""
    return next(((one.name, made) for one in backends if (made := one.image_builder) is not None), None)


def built(
    backends: Mapping[str, Backend],
    image: Image,
    *,
    on_line: OnLine | None = None,
    create_repository: bool = False,
) -> BuiltImage:
    """The image, built by the first backend that keeps images.

    Raises:
        SpecError: no backend does.
        RequestError: the build failed.
    """
    first = builder(backends.values())
    if first is not None:
        return first[1].build(image, on_line=on_line or log.info, create_repository=create_repository)
    fix = "Trainer(VertexAI(...)) or Trainer(ComputeEngine(...))"
    what = f"none of {', '.join(backends)} keeps images"
    raise invalid("image", image.title, "one of a backend that runs containers", fix, what=what)


def with_image(backends: Mapping[str, Backend], plan: Plan) -> Plan:
    """The plan with its image built, where it has one to build.

    Raises:
        SpecError: its base cannot run any GPU of the plan; or as of `built`.
    """
    if plan.builds is None:
        return plan
    name = plan.spec.image_name or ""
    faults = [
        [one for one in image_faults(name, each.gpu) if one.is_certain] if each.gpu else []
        for each in plan.candidates
    ]
    if faults and all(faults):  # before it is built
        first = faults[0][0]
        raise invalid("image", name, first.why, first.fix, what=first.what)
    spec = plan.spec.replace(image=built(backends, plan.builds).reference)
    return attrs.evolve(plan, spec=spec, builds=None)
