"""Why what a backend has on offer is not for a spec, and what would work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import attrs

from gputrain import catalog, fields
from gputrain.catalog import ANY_RESERVATION, ProvisioningModel, Stage
from gputrain.errors import UnknownGpuError
from gputrain.planning.supply import Offer, Supply, told
from gputrain.quota import Reading, Verdict
from gputrain.spec import GpuRequest, TrainingSpec
from gputrain.tables import Shown


@attrs.frozen(kw_only=True)
class Fact(Shown):
    """What was read about one candidate's place: its quotas, whether it has the machine, and advice."""

    verdict: Verdict = Verdict.UNKNOWN
    obtainability: float | None = None
    """The provider's own estimate from 0 to 1 that the machines can be had now."""
    note: str = ""
    """What could not be read, and why; or what else to know."""
    readings: tuple[Reading, ...] = attrs.field(default=(), hash=False)
    """Limit, usage and need of every quota the job counts against, with who told it and when."""
    absent_why: str = ""
    """Why the machines cannot be had there: the live answer says so. Empty: nothing says that."""
    availability: str = ""
    """Who says that the place has the machine: an API with its time, or the catalog with its date."""


Model = ProvisioningModel | None


@attrs.frozen
class Refusal(Shown):
    """One way the spec cannot run: what was refused, why, and what would work."""

    backend: str
    subject: str
    why: str
    fix: str = ""
    asked_for: bool = True
    """False for shapes that the spec never asked for; displays leave those out."""

    def __str__(self) -> str:
        remedy = f"; what would work: {self.fix}" if self.fix else ""
        return f"{self.backend}: {self.subject}: {self.why}{remedy}"


def _why_and_fix(value: Any) -> tuple[str, str]:
    why, fix = fields.instance(tuple)(value)
    return fields.text(why), fields.instance(str)(fix)


def allowed_models(spec: TrainingSpec) -> tuple[ProvisioningModel, ...]:
    """The provisioning models to try, in order: the user's, or ``standard`` where none is named."""
    if spec.provisioning_model:
        return spec.provisioning_model
    if spec.reservation not in (None, ANY_RESERVATION):
        return (ProvisioningModel.STANDARD, ProvisioningModel.RESERVATION_BOUND)
    return (ProvisioningModel.STANDARD,)


def matches(request: GpuRequest, offer: Offer) -> bool:
    """Whether an offer is what a request asks for, kind and count."""
    return bool(offer.gpu) and _is_of_kind(request, offer) and offer.gpu_count == request.count


def _is_of_kind(request: GpuRequest, offer: Offer) -> bool:
    # A machine of one's own is not sold under any model, and takes a count without a kind.
    return request.kind == offer.gpu or (request.kind is None and not offer.provisioning_models)


def _suits(spec: TrainingSpec, offer: Offer) -> bool:
    return not spec.gpu or any(matches(request, offer) for request in spec.gpu)


def subject_of(offer: Offer, model: Model) -> str:
    """An offer under a model, in words."""
    return f"{offer.shape} on {offer.machine_type}" + (f" as {model.value}" if model else "")


def _gpus(spec: TrainingSpec) -> str:
    return ", ".join(map(str, spec.gpu))


def _models(models: tuple[ProvisioningModel, ...]) -> str:
    return " or ".join(f"'{model.value}'" for model in models)


def refusing(spec: TrainingSpec, backend: str, offer: Offer, model: Model) -> Refusal | None:
    """Why an offer is not for a spec under a model: the first reason there is; None where it suits."""
    return next(_refusals(spec, backend, offer, model), None)


def _refusals(spec: TrainingSpec, backend: str, offer: Offer, model: Model) -> Iterator[Refusal]:
    subject, allowed, sold = subject_of(offer, model), allowed_models(spec), offer.provisioning_models
    is_unnamed = not spec.gpu and bool(offer.gpu)
    if not _suits(spec, offer):
        yield Refusal(backend, subject, f"not asked for: gpu is {_gpus(spec)}", asked_for=False)
    if is_unnamed and spec.machine_type != offer.machine_type and model is not None:
        fix = f"gpu='{offer.gpu}:{offer.gpu_count}'"
        yield Refusal(backend, subject, "not asked for: no gpu is named", fix, asked_for=False)
    if spec.machine_type not in (None, offer.machine_type):
        yield Refusal(
            backend, subject, f"not asked for: machine_type is {spec.machine_type}", asked_for=False
        )
    if not offer.places:
        yield Refusal(backend, subject, "not to be had in the places you allow", "allow more regions")
    if model is not None and model not in allowed:
        why = f"it is sold only as {_models(sold)}; you allow {_models(allowed)}"
        is_asked_for = not set(allowed) & set(sold)
        yield Refusal(
            backend, subject_of(offer, None), why, f"provisioning_model={_models(sold)}", is_asked_for
        )
    if model is ProvisioningModel.RESERVATION_BOUND and spec.reservation in (None, ANY_RESERVATION):
        fix = "reservation='my-reservation'"
        yield Refusal(backend, subject, "reservation-bound needs a reservation", fix, asked_for=False)
    if is_unnamed and (spec.nproc_per_node or 1) > offer.gpu_count:
        yield Refusal(backend, subject, f"{spec.nproc_per_node} ranks want a GPU each", asked_for=False)
    if offer.max_nodes is not None and spec.num_nodes > offer.max_nodes:
        why = f"{spec.num_nodes} such nodes are more than the {offer.max_nodes} there are"
        yield Refusal(backend, subject, offer.max_nodes_why or why, "fewer num_nodes")
    own = offer.refuses(spec, model)  # after ours: a backend speaks only of what the spec asks for
    if own:
        yield Refusal(
            backend, subject, *told(backend, "refuses", own, _why_and_fix, "why, and what would work")
        )


def unmet(spec: TrainingSpec, supply: Supply) -> Iterator[Refusal]:
    """One reason for each request that no offer matches, naming what there is."""
    kinds = tuple(sorted({offer.gpu for offer in supply.offers if offer.gpu}))
    is_told = any(limit.field == "gpu" and limit.asks(spec) for limit in supply.limits)
    if not (spec.gpu or is_told) and all(one.gpu and one.provisioning_models for one in supply.offers):
        yield Refusal(supply.backend, "gpu", "no GPU is named", f"gpu='{kinds[0]}:1'" if kinds else "")
    machines = [offer.machine_type for offer in supply.offers if _suits(spec, offer)]
    if spec.machine_type and machines and spec.machine_type not in machines:
        subject = f"machine_type {spec.machine_type}"
        yield Refusal(supply.backend, subject, f"it does not carry {_gpus(spec)}", " or ".join(machines))
    for request in spec.gpu:
        own = {offer.gpu_count for offer in supply.offers if offer.gpu and _is_of_kind(request, offer)}
        unknown = unknown_gpu(request, supply)
        if unknown is not None:
            yield Refusal(supply.backend, str(request), unknown.what, unknown.fix)
        elif request.count not in own:
            yield _none_like(supply.backend, request, sorted(own), kinds)


def _none_like(
    backend: str, request: GpuRequest, counts: Sequence[int | Fraction], kinds: Sequence[str]
) -> Refusal:
    """Why nothing on offer is like a request: of its kind there are these counts, and in all these kinds."""
    asked = str(request)
    if counts:
        why = f"no machine carries {request.count} x {request.kind or 'GPU'}"
        return Refusal(backend, asked, why, f"counts that exist: {', '.join(map(str, counts))}")
    without = "leave gpu= out to run CPU ranks, or ask a cloud: Trainer(VertexAI(...))"
    if request.kind is None:
        if not kinds:
            return Refusal(backend, asked, "there is no GPU here", without)
        return Refusal(backend, asked, "a count alone means GPUs of this machine", "say which: gpu='L4:2'")
    fix = f"GPUs that are: {', '.join(kinds)}" if kinds else without
    return Refusal(backend, asked, _not_here(request.kind), fix)


def unknown_gpu(request: GpuRequest, supply: Supply) -> UnknownGpuError | None:
    """What a backend says of a kind that it can never have; None where it knows it."""
    try:
        if request.kind is not None:
            supply.find_gpu(request.kind)
    except UnknownGpuError as error:
        return error
    return None


def _not_here(kind: str) -> str:
    try:
        life = catalog.find(kind).lifecycle
    except UnknownGpuError:
        return f"{kind} is not to be had here"
    gone = f": {life.note} {life.ends}" if life.stage is Stage.GONE else ""
    return f"{kind} is not to be had here{gone}"
