"""What every backend is asked before a job: its preflight in one report, its quotas in one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from gputrain import fields
from gputrain.backends import guard
from gputrain.backends.base import Backend, Preflights, TellsQuotas
from gputrain.backends.dues import all_due, due
from gputrain.catalog import ProvisioningModel
from gputrain.errors import RequestError
from gputrain.fields import FaultCollector, Field
from gputrain.gcp import MissingError
from gputrain.planning import Candidate, Supply, Wanted, candidates
from gputrain.planning.offers import unknown_gpu
from gputrain.preflight import Check, Checks, Finding
from gputrain.preflight.checks import Question, examine, fault, fine
from gputrain.preflight.google import BUILDS, in_registry
from gputrain.preflight.project import NeededApi, apis, permissions
from gputrain.quota import Quotas
from gputrain.spec import GpuRequest, Image, TrainingSpec
from gputrain.spec.gpu import parse_gpus
from gputrain.spec.image import Builder
from gputrain.threads import side_by_side
from gputrain.trainer import images
from gputrain.trainer.choice import supply_of
from gputrain.trainer.each import of_each

if TYPE_CHECKING:
    from gputrain.images import Works

_REGISTRY = NeededApi(name="artifactregistry.googleapis.com", purpose="keep the image")
_CLOUD_BUILD = NeededApi(name="cloudbuild.googleapis.com", purpose="build the image")


def examined(
    backends: Iterable[Backend],
    spec: TrainingSpec | None,
    job_id: str,
    note: str = "",
    builds: Image | None = None,
) -> Checks:
    """What each backend finds, side by side.

    ``builds`` is an image that is yet to be built, and ``note`` what is to be known of it.
    With a spec, a backend that cannot run it is a fault only where no other can, and is asked nothing else.
    """
    listed = tuple(backends)
    if spec is None:
        return _all([partial(_preflight, backend, None, (), "") for backend in listed])
    wanted = candidates(spec, [supply_of(backend) for backend in listed])
    asks: list[Callable[[], Iterable[Check]]] = []
    for backend in listed:
        places = [one for one in wanted.candidates if one.backend == backend.name]
        if places:
            asks.append(partial(_preflight, backend, spec, places, job_id))
        asks.append(partial(_fits, spec, backend.name, wanted))
    if builds is not None and (first := images.builder(listed)) is not None:
        asks.append(partial(_works, *first, builds))
    seen = _all(asks)
    return _yet_to_be_built(seen, spec.image_name, note) if note else seen


def _yet_to_be_built(seen: Checks, image: str | None, note: str) -> Checks:
    """The checks, of an image that is no fault for not being in its registry: a submit builds it."""
    subject = in_registry(image or "")
    fine = [attrs.evolve(one, finding=Finding.OK, why=note, fix="") for one in seen if one.subject == subject]
    return Checks(checks=[*fine, *(one for one in seen if one.subject != subject)])


def _works(backend: str, works: Works, image: Image) -> Checks:
    """Look at what an image that is yet to be built needs, beside all that jobs need."""
    access, is_googles = works.access, image.builder is Builder.CLOUD_BUILD
    needs = [one for one in BUILDS if one.permission.startswith("cloudbuild.")] if is_googles else []
    things = [
        apis(access, (_REGISTRY, _CLOUD_BUILD) if is_googles else (_REGISTRY,)),
        *permissions(access, needs),  # those of a repository may be granted on it alone
        Question(subject=f"repository {works.home.repository}", ask=lambda: _repository(works, image)),
    ]
    found = examine(backend, things)
    return Checks(checks=[attrs.evolve(one, fix=access.fitted(one.fix)) for one in found])


def _repository(works: Works, image: Image) -> Iterator[Check]:
    from gputrain.images import home

    try:
        home.check(works.access, works.home, image)
    except MissingError as error:
        yield fault(error.what, error.fix)
        return
    yield fine(f"it is there, in {works.home.location}")


def _all(asks: Sequence[Callable[[], Iterable[Check]]]) -> Checks:
    return Checks(checks=[check for found in side_by_side(lambda ask: ask(), asks) for check in found])


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


def _preflight(
    backend: Backend, spec: TrainingSpec | None, places: Sequence[Candidate], job_id: str
) -> Iterable[Check]:
    if not isinstance(backend, Preflights):
        why = "this backend looks at nothing beforehand"
        return (Check(backend=backend.name, subject="preflight", finding=Finding.UNKNOWN, why=why),)

    def ask() -> Iterable[Check]:
        with guard.foreseen(backend.name, "look at what jobs need"):
            return all_due("preflight(...)", backend.preflight(spec, places, job_id), Check)

    return examine(backend.name, [Question(subject="preflight", ask=ask)])


def read(
    backends: Iterable[Backend], *, gpu: object, num_nodes: int, provisioning_model: object, region: object
) -> Quotas:
    """How jobs of these sizes stand on each backend, read side by side.

    Raises:
        SpecError: with every word that is none.
        NoFitError: no machine carries that count.
        RequestError: none of the backends has quotas.
    """
    faults = FaultCollector("this question")
    given = {"gpu": gpu, "num_nodes": num_nodes, "provisioning_model": provisioning_model, "region": region}
    found = fields.read(_ROWS, given, faults)
    listed = tuple(backends)
    asked = [one for one in listed if isinstance(one, TellsQuotas)]
    if not asked:
        named = " and ".join(one.name for one in listed)
        fix = "name a cloud: Trainer(VertexAI(...)), with the project and the region"
        raise RequestError(f"{named} has no quotas: a project on Google Cloud has some", fix=fix)
    _check_known(found["gpu"] or (), [supply_of(one) for one in asked], faults)
    faults.raise_if_any()

    def ask(backend: Backend) -> Quotas:
        size = {"num_nodes": found["num_nodes"], "models": found["provisioning_model"] or ()}
        with guard.foreseen(backend.name, "read the quotas"):
            if isinstance(backend, TellsQuotas):
                given = backend.quotas(found["gpu"], **size, regions=found["region"] or ())
                return due("quotas(...)", given, Quotas)
        return Quotas(standings=())

    told, unread = of_each(asked, ask, "quotas")
    return sum(told, Quotas(standings=(), unread=unread))


def _check_known(gpus: Sequence[GpuRequest], supplies: Sequence[Supply], faults: FaultCollector) -> None:
    """A kind of GPU that no backend knows is a fault."""
    for request in gpus:
        unknown = [one for one in (unknown_gpu(request, supply) for supply in supplies) if one]
        if unknown and len(unknown) == len(supplies):
            faults.add("gpu", str(request), unknown[0].what, unknown[0].fix)


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
