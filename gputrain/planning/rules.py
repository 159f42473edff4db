"""Why an offer is not for a spec, and why nothing on offer is like what was asked for: tables, read from the
top. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import attrs

from gputrain import catalog
from gputrain.catalog import ProvisioningModel, Stage
from gputrain.errors import UnknownGpuError
from gputrain.planning.offers import Offer, Supply
from gputrain.spec import GpuRequest, TrainingSpec

Model = ProvisioningModel | None
Ask = Callable[[TrainingSpec, Offer, Model], bool]
Word = Callable[[TrainingSpec, Offer, Model], str]


@attrs.frozen
class Reason:
    """Why not, and what would work."""

    subject: str
    why: str
    fix: str = ""
    asked_for: bool = True
    """False for what the spec never asked for."""


def allowed_models(spec: TrainingSpec) -> tuple[ProvisioningModel, ...]:
    """The provisioning models to try, in order: the user's, or ``standard`` where none is named."""
    if spec.provisioning_model:
        return spec.provisioning_model
    if spec.reservation:
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


def _no_fix(_spec: TrainingSpec, _offer: Offer, _model: Model) -> str:
    return ""


@attrs.frozen(kw_only=True)
class Rule:
    """One reason why an offer is not for a spec."""

    refuses: Ask
    why: Word
    fix: Word = _no_fix
    asked_for: Ask = lambda _spec, _offer, _model: True
    subject: Word = lambda _spec, offer, model: subject_of(offer, model)


def _never(_spec: TrainingSpec, _offer: Offer, _model: Model) -> bool:
    return False


RULES = (
    Rule(
        refuses=lambda spec, offer, _: not _suits(spec, offer),
        why=lambda spec, _, __: f"not asked for: gpu is {_gpus(spec)}",
        asked_for=_never,
    ),
    Rule(
        refuses=lambda spec, offer, model: (
            not spec.gpu and bool(offer.gpu) and spec.machine_type != offer.machine_type and model is not None
        ),
        why=lambda _, __, ___: "not asked for: no gpu is named",
        fix=lambda _, offer, __: f"gpu='{offer.gpu}:{offer.gpu_count}'",
        asked_for=_never,
    ),
    Rule(
        refuses=lambda spec, offer, _: spec.machine_type not in (None, offer.machine_type),
        why=lambda spec, _, __: f"not asked for: machine_type is {spec.machine_type}",
        asked_for=_never,
    ),
    Rule(
        refuses=lambda _, offer, __: not offer.places,
        why=lambda _, __, ___: "not to be had in the places you allow",
        fix=lambda _, __, ___: "allow more regions",
    ),
    Rule(
        refuses=lambda spec, _, model: model is not None and model not in allowed_models(spec),
        subject=lambda _, offer, __: subject_of(offer, None),
        why=lambda spec, offer, _: (
            f"it is sold only as {_models(offer.provisioning_models)}; "
            f"you allow {_models(allowed_models(spec))}"
        ),
        fix=lambda _, offer, __: f"provisioning_model={_models(offer.provisioning_models)}",
        asked_for=lambda spec, offer, _: not set(allowed_models(spec)) & set(offer.provisioning_models),
    ),
    Rule(
        refuses=lambda spec, _, model: model is ProvisioningModel.RESERVATION_BOUND and not spec.reservation,
        why=lambda _, __, ___: "reservation-bound needs a reservation",
        fix=lambda _, __, ___: "reservation='my-reservation'",
        asked_for=_never,
    ),
    Rule(
        refuses=lambda spec, offer, _: (
            not spec.gpu and bool(offer.gpu) and (spec.nproc_per_node or 1) > offer.gpu_count
        ),
        why=lambda spec, _, __: f"{spec.nproc_per_node} ranks want a GPU each",
        asked_for=_never,
    ),
    Rule(
        refuses=lambda spec, offer, _: offer.max_nodes is not None and spec.num_nodes > offer.max_nodes,
        why=lambda spec, offer, _: (
            offer.max_nodes_why
            or f"{spec.num_nodes} such nodes are more than the {offer.max_nodes} there are"
        ),
        fix=lambda _, offer, __: offer.max_nodes_fix or "fewer num_nodes",
    ),
)
"""Tried from the top: the first that refuses speaks."""


def refusing(spec: TrainingSpec, offer: Offer, model: Model) -> Reason | None:
    """Why an offer is not for a spec under a model; None where it is."""
    for rule in RULES:
        if rule.refuses(spec, offer, model):
            return Reason(
                rule.subject(spec, offer, model),
                rule.why(spec, offer, model),
                rule.fix(spec, offer, model),
                rule.asked_for(spec, offer, model),
            )
    own = offer.refuses(spec, model)  # after ours: a backend speaks only of what the spec asks for
    return Reason(subject_of(offer, model), *own) if own else None


@attrs.frozen(kw_only=True)
class Asked:
    """What one request finds on offer: the counts of its kind, and all the kinds."""

    request: GpuRequest
    counts: tuple[int | Fraction, ...]
    kinds: tuple[str, ...]


@attrs.frozen(kw_only=True)
class NoneLikeIt:
    """One reason why nothing on offer is like a request."""

    refuses: Callable[[Asked], bool]
    why: Callable[[Asked], str]
    fix: Callable[[Asked], str]


UNMET = (
    NoneLikeIt(
        refuses=lambda asked: bool(asked.counts),
        why=lambda asked: f"no machine carries {asked.request.count} x {asked.request.kind or 'GPU'}",
        fix=lambda asked: f"counts that exist: {', '.join(map(str, asked.counts))}",
    ),
    NoneLikeIt(
        refuses=lambda asked: asked.request.kind is None,
        why=lambda _: "a count alone means GPUs of this machine",
        fix=lambda _: "say which: gpu='L4:2'",
    ),
    NoneLikeIt(
        refuses=lambda asked: bool(asked.kinds),
        why=lambda asked: _not_here(asked.request.kind),
        fix=lambda asked: f"GPUs that are: {', '.join(asked.kinds)}",
    ),
    NoneLikeIt(
        refuses=lambda _: True,
        why=lambda asked: _not_here(asked.request.kind),
        fix=lambda _: "leave gpu= out to run CPU ranks",
    ),
)
"""Of a request that no offer matches; tried from the top."""


def unmet(spec: TrainingSpec, supply: Supply) -> Iterator[Reason]:
    """One reason for each request that no offer matches, naming what there is."""
    kinds = tuple(sorted({offer.gpu for offer in supply.offers if offer.gpu}))
    if not spec.gpu and all(offer.gpu and offer.provisioning_models for offer in supply.offers):
        yield Reason("gpu", "no GPU is named", f"gpu='{kinds[0]}:1'" if kinds else "")
    machines = [offer.machine_type for offer in supply.offers if _suits(spec, offer)]
    if spec.machine_type and machines and spec.machine_type not in machines:
        subject = f"machine_type {spec.machine_type}"
        yield Reason(subject, f"it does not carry {_gpus(spec)}", " or ".join(machines))
    for request in spec.gpu:
        own = {offer.gpu_count for offer in supply.offers if offer.gpu and _is_of_kind(request, offer)}
        unknown = unknown_gpu(request, supply)
        if unknown is not None:
            yield Reason(str(request), unknown.what, unknown.fix)
        elif request.count not in own:
            asked = Asked(request=request, counts=tuple(sorted(own)), kinds=kinds)
            rule = next(one for one in UNMET if one.refuses(asked))
            yield Reason(str(request), rule.why(asked), rule.fix(asked))


def unknown_gpu(request: GpuRequest, supply: Supply) -> UnknownGpuError | None:
    """What a backend says of a kind that it can never have; None where it knows it."""
    try:
        if request.kind is not None:
            supply.find_gpu(request.kind)
    except UnknownGpuError as error:
        return error
    return None


def _not_here(kind: str | None) -> str:
    try:
        life = catalog.find(kind or "").lifecycle
    except UnknownGpuError:
        return f"{kind} is not to be had here"
    gone = f": {life.note} {life.ends}" if life.stage is Stage.GONE else ""
    return f"{kind} is not to be had here{gone}"
