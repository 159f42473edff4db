"""Every backend's preflight in one report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from gputrain.backends.base import Backend, Preflights
from gputrain.planning import Candidate, Wanted, candidates
from gputrain.preflight import Check, Checks, Finding
from gputrain.spec import TrainingSpec


def examined(backends: Iterable[Backend], spec: TrainingSpec | None, job_id: str) -> Checks:
    """What each backend finds, side by side.

    With a spec, a backend that cannot run it is a fault only where no other can, and is asked nothing else.
    """
    listed = tuple(backends)
    if spec is None:
        return _all([partial(_preflight, backend, None, (), "") for backend in listed])
    wanted = candidates(spec, [backend.supply for backend in listed])
    asks: list[Callable[[], Iterable[Check]]] = []
    for backend in listed:
        places = [one for one in wanted.candidates if one.backend == backend.name]
        if places:
            asks.append(partial(_preflight, backend, spec, places, job_id))
        asks.append(partial(_fits, spec, backend.name, wanted))
    return _all(asks)


def _all(asks: Sequence[Callable[[], Iterable[Check]]]) -> Checks:
    with ThreadPoolExecutor(max_workers=max(1, len(asks))) as pool:
        return Checks(checks=[check for found in pool.map(lambda ask: ask(), asks) for check in found])


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
    if isinstance(backend, Preflights):
        return backend.preflight(spec, places, job_id)
    why = "this backend looks at nothing beforehand"
    return (Check(backend=backend.name, subject="preflight", finding=Finding.UNKNOWN, why=why),)
