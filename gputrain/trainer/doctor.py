"""What every backend is asked before a job: its preflight in one report, its quotas in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from gputrain import fields
from gputrain.backends.base import Backend
from gputrain.catalog import ProvisioningModel
from gputrain.concurrency import gather
from gputrain.doctor import Check, Checks, Finding
from gputrain.doctor.google import NeededApi, apis, in_registry
from gputrain.doctor.permissions import BUILDS, permissions
from gputrain.doctor.report import Probe, failed, ok, run_checks
from gputrain.errors import AccessError, RequestError
from gputrain.fields import Errors, Field
from gputrain.google import MissingError
from gputrain.planning import Candidate, Supply, Wanted, candidates, unknown_gpu
from gputrain.quota import Quotas
from gputrain.spec import GpuRequest, Image, TrainingSpec
from gputrain.spec.gpu import parse_gpus
from gputrain.spec.image import Builder
from gputrain.trainer import images
from gputrain.trainer.jobs import of_each

if TYPE_CHECKING:
    from gputrain.images import ImageBuilder

_REGISTRY = NeededApi("artifactregistry.googleapis.com", "keep the image")
_CLOUD_BUILD = NeededApi("cloudbuild.googleapis.com", "build the image")


def examined(
    backends: Iterable[Backend],
    spec: TrainingSpec | None,
    note: str = "",
    builds: Image | None = None,
) -> Checks:
    """What each backend finds, side by side.

    ``builds`` is an image that is yet to be built, and ``note`` what is to be known of it.
    With a spec, a backend that cannot run it is a fault only where no other can, and is asked nothing else.
    """
    listed = tuple(backends)
    if spec is None:
        return _all([partial(_preflight, backend, None, ()) for backend in listed])
    wanted = candidates(spec, [backend.supply for backend in listed])
    asks: list[Callable[[], Iterable[Check]]] = []
    for backend in listed:
        places = [one for one in wanted.candidates if one.backend == backend.name]
        if places:
            asks.append(partial(_preflight, backend, spec, places))
        asks.append(partial(_fits, spec, backend.name, wanted))
    if builds is not None and (first := images.builder(listed)) is not None:
        asks.append(partial(_check_builder, *first, builds))
    seen = _all(asks)
    return _yet_to_be_built(seen, spec.image_name, note) if note else seen


def _yet_to_be_built(seen: Checks, image: str | None, note: str) -> Checks:
    """The checks, of an image that is no fault for not being in its registry: a submit builds it."""
    subject = in_registry(image or "")
    fine = [attrs.evolve(one, finding=Finding.OK, why=note, fix="") for one in seen if one.subject == subject]
    return Checks(checks=[*fine, *(one for one in seen if one.subject != subject)])


def _check_builder(backend: str, builder: ImageBuilder, image: Image) -> Checks:
    """Look at what an image that is yet to be built needs, beside all that jobs need."""
    access, is_googles = builder.access, image.builder is Builder.CLOUD_BUILD
    needs = [one for one in BUILDS if one.name.startswith("cloudbuild.")] if is_googles else []
    things = [
        apis(access, (_REGISTRY, _CLOUD_BUILD) if is_googles else (_REGISTRY,)),
        *permissions(access, needs),  # those of a repository may be granted on it alone
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


def _all(asks: Sequence[Callable[[], Iterable[Check]]]) -> Checks:
    return Checks(checks=[check for found in gather(lambda ask: ask(), asks) for check in found])


def _fits(spec: TrainingSpec, backend: str, wanted: Wanted) -> Iterator[Check]:
    subject = f"{spec.title} as asked"
    count = sum(one.backend == backend for one in wanted.candidates)
    if count:
        why = f"{count} {'way' if count == 1 else 'ways'} to run it, by the catalog"
        yield Check(backend=backend, subject=subject, finding=Finding.OK, why=why)
        return
    refused = dict.fromkeys(one for one in wanted.refusals if one.backend == backend and one.asked_for)
    for one in refused:
        why = f"{one.subject}: {one.why}"
        if wanted.candidates:
            yield Check(backend=backend, subject=subject, finding=Finding.OK, why=f"left out: {why}")
        else:
            yield Check(backend=backend, subject=subject, finding=Finding.FAULT, why=why, fix=one.fix)


def _preflight(backend: Backend, spec: TrainingSpec | None, places: Sequence[Candidate]) -> Iterable[Check]:
    probe = Probe(subject="preflight", run=lambda: backend.preflight(spec, places))
    return run_checks(backend.name, [probe])


def read(
    backends: Iterable[Backend], *, gpu: object, num_nodes: int, provisioning_model: object, region: object
) -> Quotas:
    """How jobs of these sizes stand on each backend, read side by side.

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
    _check_known(found["gpu"] or (), [one.supply for one in asked], faults)
    faults.raise_if_any()

    def ask(backend: Backend) -> Quotas:
        models, regions = found["provisioning_model"] or (), found["region"] or ()
        return backend.quotas(found["gpu"], num_nodes=found["num_nodes"], models=models, regions=regions)

    told, unread = of_each(asked, ask, "quotas")
    return sum(told, Quotas(statuses=(), unread=unread))


def _check_known(gpus: Sequence[GpuRequest], supplies: Sequence[Supply], faults: Errors) -> None:
    """A kind of GPU that no backend knows is a fault."""
    for request in gpus:
        unknown = [one for one in (unknown_gpu(request, supply) for supply in supplies) if one]
        if unknown and len(unknown) == len(supplies):
            faults.add("gpu", str(request), "", unknown[0].fix, problem=unknown[0].what)


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
