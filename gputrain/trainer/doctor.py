"""Checks before a job: the preflight of all backends in one report, their quotas in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import attrs

from gputrain import fields
from gputrain.backends.base import Backend
from gputrain.catalog import ProvisioningModel
from gputrain.concurrency import gather
from gputrain.doctor import Check, Checks, Finding
from gputrain.doctor.google import NeededApi, apis, in_registry, needs, permissions
from gputrain.doctor.report import Probe, failed, ok, run_checks
from gputrain.errors import AccessError, RequestError
from gputrain.fields import Errors, Field
from gputrain.google import MissingError
from gputrain.planning import Wanted, candidates, unknown_gpu
from gputrain.quota import Quotas
from gputrain.spec import GpuRequest, Image, TrainingSpec
from gputrain.spec.gpu import parse_gpus
from gputrain.spec.image import Builder
from gputrain.trainer import images
from gputrain.trainer.jobs import left_out, of_each

if TYPE_CHECKING:
    from gputrain.images import ImageBuilder

_REGISTRY = NeededApi("artifactregistry.googleapis.com", "keep the image")
_CLOUD_BUILD = NeededApi("cloudbuild.googleapis.com", "build the image")


def examined(
    backends: Iterable[Backend], spec: TrainingSpec | None, note: str = "", builds: Image | None = None
) -> Checks:
    """The checks of all backends, run at the same time.

    With a spec, a backend that cannot run it is a fault only where no other can, and nothing else of it is
    checked.

    Args:
        builds: an image that is yet to be built, and ``note`` what to know of it.
    """
    listed = tuple(backends)
    asks: list[Callable[[], Iterable[Check]]] = []
    title = "" if spec is None else spec.title
    wanted = None if spec is None else candidates(spec, [backend.supply for backend in listed])
    for backend in listed:
        places = [one for one in wanted.candidates if one.backend == backend.name] if wanted else ()
        probes = []
        if places or wanted is None:
            probes.append(Probe(subject="preflight", run=partial(backend.preflight, spec, places)))
        if wanted is not None:
            probes.append(Probe(subject=f"{title} as asked", run=partial(_fits, backend.name, wanted)))
        asks.append(partial(run_checks, backend.name, probes))
    if builds is not None and (first := images.builder(listed)) is not None:
        asks.append(partial(_check_builder, *first, builds))
    seen = [check for found in gather(lambda ask: ask(), asks) for check in found]
    if note and spec is not None:  # its image is no fault for not being in its registry: a submit builds it
        subject = in_registry(spec.image_name or "")
        built = [
            attrs.evolve(one, finding=Finding.OK, why=note, fix="") for one in seen if one.subject == subject
        ]
        seen = [*built, *(one for one in seen if one.subject != subject)]
    return Checks(checks=seen)


def _check_builder(backend: str, builder: ImageBuilder, image: Image) -> Checks:
    """Look at what an image that is yet to be built needs, beside all that jobs need."""
    access, is_googles = builder.access, image.builder is Builder.CLOUD_BUILD
    needed = [one for one in needs("builds") if one.name.startswith("cloudbuild.")] if is_googles else []
    things = [
        apis(access, (_REGISTRY, _CLOUD_BUILD) if is_googles else (_REGISTRY,)),
        *permissions(access, needed),  # those of a repository may be granted on it alone
        Probe(subject=f"repository {builder.repository.repository}", run=lambda: _repository(builder, image)),
    ]
    return run_checks(backend, things)


def check_build(backends: Iterable[Backend], image: Image, *, create_repository: bool) -> None:
    """Of a build that was refused: raise AccessError with all that is missing, where that is several."""
    first = images.builder(backends)
    if first is None:
        return
    faults = [one for one in _check_builder(*first, image) if one.finding is Finding.FAULT]
    faults = [one for one in faults if not (create_repository and one.subject.startswith("repository "))]
    if len(faults) > 1:
        what = [f"{image.title} cannot be built:", *(f"{one.subject}: {one.why}" for one in faults)]
        fix = "\n       ".join(dict.fromkeys(one.fix for one in faults if one.fix))
        raise AccessError("\n  ".join(what), fix=fix)


def _repository(builder: ImageBuilder, image: Image) -> Iterator[Check]:
    try:
        builder.repository.check(builder.access, image)
    except MissingError as error:
        yield failed(error.what, error.fix)
        return
    yield ok(f"it is there, in {builder.repository.location}")


def _fits(backend: str, wanted: Wanted) -> Iterator[Check]:
    count = sum(one.backend == backend for one in wanted.candidates)
    if count:
        yield ok(f"{count} {'way' if count == 1 else 'ways'} to run it, by the catalog")
        return
    for one in (one for one in wanted.refusals if one.backend == backend):
        why = f"{one.subject}: {one.why}"
        yield ok(f"left out: {why}") if wanted.candidates else failed(why, one.fix)


def read(
    backends: Iterable[Backend], *, gpu: object, num_nodes: int, provisioning_model: object, region: object
) -> Quotas:
    """The quotas of each backend for jobs of these sizes, read at the same time.

    Raises:
        SpecError: with every word that is none.
        NoFitError: no machine carries that count.
        RequestError: none of the backends has quotas.
    """
    faults = Errors("this question")
    given = {"gpu": gpu, "num_nodes": num_nodes, "provisioning_model": provisioning_model, "region": region}
    found = fields.read(_ROWS, given, faults)
    listed = tuple(backends)
    asked = [one for one in listed if one.has_quotas]
    if not asked:
        named = " and ".join(one.name for one in listed)
        fix = "use a cloud backend, vertex or compute, with a project and a region"
        raise RequestError(f"{named} has no quotas: a project on Google Cloud has some", fix=fix)
    for request in found["gpu"] or ():  # a kind that no backend knows
        unknown = [unknown_gpu(request, one.supply) for one in asked]
        if (first := unknown[0]) is not None and None not in unknown:
            faults.add("gpu", str(request), "", first.fix, problem=first.what)
    faults.raise_if_any()

    def ask(backend: Backend) -> Quotas:
        models, regions = found["provisioning_model"] or (), found["region"] or ()
        return backend.quotas(found["gpu"], num_nodes=found["num_nodes"], models=models, regions=regions)

    tables, refused = of_each({one.name: one for one in asked}, ask)
    return sum(tables, Quotas(statuses=(), unread=left_out(refused, "quotas")))


def _gpus(value: object) -> tuple[GpuRequest, ...]:
    found = parse_gpus(value)
    if any(one.kind is None for one in found):
        raise ValueError("a count says no kind")
    return found


_ROWS = {
    "gpu": Field(_gpus, "a kind of GPU, with a count or without", "gpu='H100:8'", is_needed=True),
    "num_nodes": Field(fields.whole(1, 1000), "1 or more", "num_nodes=1", is_needed=True),
    "provisioning_model": Field(
        fields.many(fields.one_of(ProvisioningModel), or_one=True),
        fields.words(ProvisioningModel),
        "provisioning_model='spot'",
    ),
    "region": Field(fields.many(fields.text, or_one=True), "one or more regions", "region='us-central1'"),
}
