"""What a trainer is given, every fault of it told at once: its backends, and a spec with its code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gputrain import arguments
from gputrain.backends import guard, registry
from gputrain.backends.abilities import lacks
from gputrain.backends.base import Backend
from gputrain.backends.dues import all_due
from gputrain.backends.offered import guarded
from gputrain.errors import Fault, SpecError
from gputrain.fields import Field, refused, shown
from gputrain.planning import Candidate, Fact, Supply
from gputrain.spec import TrainingSpec
from gputrain.spec.entry import Entry, make_spec
from gputrain.staging.checks import examine

_PAGE = "docs/howto/write-a-backend.md says what a backend has"


_OF_CODE = ("script", "module", "command", "function", "args", "source_dir", "requirements")


def chosen(backends: object) -> dict[str, Backend]:
    """The backends by name, in the order given; this machine where it is None.

    Raises:
        SpecError: with everything among them that is none, or none at all, or a kind twice.
    """
    listed = _listed(registry.find("local")() if backends is None else backends)
    faults = tuple(_fault(one, "backends", "Trainer({})") for one in listed if not _is_backend(one))
    if faults:
        text = "\n".join(f"  {fault}" for fault in faults)
        raise SpecError(f"Trainer(...) takes backends:\n{text}", faults=faults)
    named = {backend.name: backend for backend in listed}
    if not listed or len(named) != len(listed):
        names = ", ".join(backend.name for backend in listed) or "none"
        fault = Fault(field="backends", value=names, allowed="one or more, each kind once", fix="Trainer()")
        raise SpecError(f"a trainer takes one or more backends, each kind once; got {names}", faults=(fault,))
    return named


MADE_OF = {
    "backends": Field(chosen, "one or more, each kind once", "Trainer()", is_needed=True),
    **{name: arguments.ROWS[name] for name in ("now", "sleep")},
}
"""How each argument of a trainer is read."""


def supply_of(backend: Backend) -> Supply:
    """What a backend has on offer, under the name by which it is found again.

    Raises:
        SpecError: its supply is none, or bears another name.
        ProviderError: it raised what nobody foresaw.
    """
    with guard.foreseen(backend.name, "read the supply"):
        supply = backend.supply
    if not isinstance(supply, Supply):
        raise _misread(backend, "supply", supply, "a Supply")
    check_own(backend, "supply.backend", supply.backend)
    return guarded(backend, supply)


def facts_of(backend: Backend, wanted: Sequence[Candidate]) -> Mapping[Candidate, Fact]:
    """What a backend is told of its candidates.

    Raises:
        SpecError: what it tells are no facts.
        ProviderError: it raised what nobody foresaw.
    """
    with guard.foreseen(backend.name, "read the availability"):
        facts = backend.availability(wanted)
    if not isinstance(facts, Mapping) or not all(isinstance(one, Fact) for one in facts.values()):
        raise _misread(backend, "availability(...)", facts, "a Fact for each candidate it knows about")
    with guard.of(backend, backend.name, "read the availability"):
        if not guard.is_ours(backend):
            all_due("availability(...)", facts.values(), Fact)
    return facts


def check_own(backend: Backend, field: str, name: str) -> None:
    """Refuse what a backend says of itself under another name. Raises SpecError."""
    if name != backend.name:
        raise _misread(backend, field, name, f"its own name, {backend.name!r}")


def _misread(backend: Backend, field: str, value: object, allowed: str) -> SpecError:
    what = f"nothing can run on {backend.name}"
    return refused(field, value, allowed, f"tell whoever wrote it: {_PAGE}", what=what)


def _listed(value: object) -> tuple[Any, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(value)
    return (value,)


def one_backend(value: Any) -> Backend:
    """The backend that a job is taken up with. Raises SpecError where it is none."""
    if not _is_backend(value):
        fault = _fault(value, "backend", "gputrain.attach(uri, backend={})")
        raise SpecError(f"a job is taken up with a backend: {fault}", faults=(fault,))
    return value  # type: ignore[no-any-return]  # it lacks nothing that one has


def _is_backend(value: object) -> bool:
    return not isinstance(value, type) and not lacks(value)


def _fault(value: object, field: str, written: str) -> Fault:
    if isinstance(value, type):
        if not lacks(value):
            allowed, fix = "a backend, not its class", written.format(_made(value))
        else:
            allowed, fix = "a backend", _PAGE
        return Fault(field=field, value=value.__name__, allowed=allowed, fix=fix)
    if isinstance(value, str):
        kind = registry.find((*registry.nearest(value), "local")[0])
        allowed, fix = "a backend, not its name", written.format(_made(kind))
        return Fault(field=field, value=shown(value), allowed=allowed, fix=fix)
    missing = ", ".join(lacks(value))
    return Fault(field=field, value=shown(value), allowed=f"a backend; it has no {missing}", fix=_PAGE)


def _made(kind: type[Backend]) -> str:
    """How one is written, with the arguments that have to be there."""
    needed = registry.takes(kind).needed
    return f"{kind.__name__}({', '.join(f'{one}=...' for one in (_lacking(kind) if needed else ()))})"


def _lacking(kind: type[Backend]) -> Sequence[str]:
    """What a backend says that it lacks, which cannot be made with nothing; or its signature for it."""
    try:
        kind()
    except SpecError as error:  # it knows what is needed of several that stand for each other
        return [fault.field for fault in error.faults]
    except TypeError:
        pass
    return registry.takes(kind).needed


def of_name(backends: Mapping[str, Backend], name: str) -> Backend:
    """The backend of that name. Raises SpecError where there is none."""
    if name not in backends:
        allowed, fix = "a job of " + ", ".join(backends), "gputrain.attach(uri) finds it by itself"
        raise refused("uri", name, allowed, fix, what=f"this trainer has no backend {name!r}")
    return backends[name]


def spec_asked(entry: Entry | None, fields: Mapping[str, Any]) -> TrainingSpec:
    """The spec that an entry and fields say.

    Raises:
        SpecError: with all its faults, and those of its code beside them.
    """
    try:
        return make_spec(entry, fields)
    except SpecError as error:
        more = _faults_of_code(entry, fields)
        if not more:
            raise
        told = error.what + "\nand its code:" + "".join(f"\n  {one}" for one in more)
        raise SpecError(told, faults=(*error.faults, *more)) from None


def _faults_of_code(entry: Entry | None, fields: Mapping[str, Any]) -> tuple[Fault, ...]:
    """What is wrong with the code, as far as its own fields can be read."""
    try:
        spec = make_spec(entry, {name: fields[name] for name in _OF_CODE if name in fields})
    except SpecError:
        return ()
    return examine(spec, is_sent=False).faults
