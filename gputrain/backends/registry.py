"""The backends that are installed, ours and others': the entry points of one group, read when one is named.

A distribution brings a backend with two lines of its ``pyproject.toml``::

    [project.entry-points."gputrain.backends"]
    slurm = "gputrain_slurm:Slurm"
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib import metadata
from inspect import Parameter
from typing import Any

import attrs

from gputrain.backends import guard, seam
from gputrain.backends.abilities import StandsIn, lacks
from gputrain.backends.base import Attaches, Backend, JobRef
from gputrain.errors import Fault, GputrainError, SpecError
from gputrain.gcp.endpoints import emulator_of
from gputrain.gcp.listing import PartialListError
from gputrain.secrets import redact

GROUP = "gputrain.backends"
_CLOUDS = ("vertex", "compute")
_ALSO_CALLED = {
    **dict.fromkeys(("gcp", "google", "gcloud", "cloud", "google-cloud"), _CLOUDS),
    **dict.fromkeys(("vertex-ai", "vertexai", "vertex_ai", "ai-platform", "aiplatform"), ("vertex",)),
    **dict.fromkeys(("gce", "compute-engine", "computeengine", "vm", "vms"), ("compute",)),
    **dict.fromkeys(("here", "cpu", "this-machine", "localhost"), ("local",)),
}
"""What people call ours."""
_WAY = frozenset({"endpoints", "credentials"})
"""What leads to an emulator, the one never without the other: no token of Google's goes there."""
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


@attrs.frozen(kw_only=True)
class Arguments:
    """What a backend can be handed by name as it is made."""

    names: tuple[str, ...]
    needed: tuple[str, ...]
    is_open: bool
    """Whether it takes every other name, too."""

    def take(self, name: str) -> bool:
        """Whether it can be handed this one."""
        return self.is_open or name in self.names


def names() -> tuple[str, ...]:
    """The words for the backends there are; none of them is loaded."""
    return tuple(sorted({one.name for one in metadata.entry_points(group=GROUP)}))


def nearest(name: str) -> list[str]:
    """Those that somebody may mean who says that name, of the backends there are."""
    known = names()
    meant = [one for one in _ALSO_CALLED.get(name.lower(), ()) if one in known]
    return meant or difflib.get_close_matches(name.lower(), known, n=1)


def find(name: str) -> type[Backend]:
    """The class of a backend.

    Raises:
        SpecError: none of that name is installed, several are, or the one there is cannot be loaded.
    """
    rows = list(metadata.entry_points(group=GROUP, name=name))
    if not rows:
        raise _absent(name)
    if len({row.value for row in rows}) > 1:
        theirs = " and ".join(sorted(_distribution(row) for row in rows))
        raise _refused(name, f"{theirs} both bring one", "uninstall one of them")
    return _loaded(rows[0])


def jobs_of(backend: Backend, name: str) -> tuple[tuple[JobRef, ...], GputrainError | None]:
    """The jobs of a backend whose ids begin so, and what is wrong where there may be more of them.

    Raises:
        GputrainError: none could be listed.
    """
    try:
        with guard.foreseen(backend.name, "list the jobs"):
            return seam.find(backend, name), None
    except PartialListError as error:  # it may be another list than that of jobs
        return tuple(one for one in error.seen if isinstance(one, JobRef)), error


def of_ref(ref: JobRef, **arguments: Any) -> Backend:
    """The backend that a job's name speaks of.

    Args:
        ref: the job's name.
        arguments: of the backend's constructor, that no name holds; those it does not take are left out.

    Raises:
        SpecError: as `find`, or it cannot be made from a name.
    """
    kind = find(ref.backend)
    if not issubclass(kind, Attaches):
        by_hand = f"gputrain.attach(uri, backend={kind.__name__}(...))"
        raise _refused(ref.backend, "it cannot be made from a job's name alone", by_hand)
    given = accepted(ref.backend, kind, arguments)
    mend = f"gputrain.attach(uri, backend={kind.__name__}(...)), and tell whoever wrote it"
    make, endpoints = (lambda: kind.for_ref(ref, **given)), arguments.get("endpoints")
    return made(ref.backend, make, "a job's name", mend, endpoints=endpoints)


def accepted(name: str, kind: type[Backend], said: Mapping[str, Any]) -> dict[str, Any]:
    """What a backend of that name takes of all that is said for any: one without Google takes no way there.

    Raises:
        SpecError: it takes half of what leads to an emulator.
    """
    arguments = takes(kind)
    given = {key: value for key, value in said.items() if arguments.take(key)}
    taken, lost = _WAY & set(given), _WAY & set(said) - set(given)
    if taken and lost:
        why = f"it takes {min(taken)} and not {min(lost)}, so no emulator can stand for Google"
        raise _refused(name, why, "go without an endpoint, or tell whoever wrote it")
    return given


def made(
    name: str, make: Callable[[], Backend], source: str, mend: str, *, endpoints: object = None
) -> Backend:
    """What is made of a source (its settings, a job's name), seen to be the backend of that name.

    Args:
        endpoints: that were asked for: one for which an emulator can stand in speaks to no other.

    Raises:
        SpecError: as its maker says, or it is none, or another, or speaks elsewhere.
    """
    emulator = emulator_of(endpoints)
    try:
        backend = make()
        missing = ", ".join(lacks(backend))
        said = f"it has no {missing}" if missing else f"it calls itself {backend.name!r}"
        is_it = not missing and backend.name == name
        trial = backend.trial if emulator and isinstance(backend, StandsIn) else emulator
    except GputrainError:
        raise
    except guard.ANYTHING as error:  # of somebody else's code: whatever it is, it says which backend
        raise _refused(name, f"from {source} came {guard.said(error)}", mend) from error
    if not is_it:
        raise _refused(name, f"what is made from {source} is another: {said}", mend)
    if trial != emulator:
        why = f"it would not speak to {emulator}, but to {trial or 'Google'}"
        raise _refused(name, why, "let its constructor hand on endpoints and credentials")
    return backend


def takes(kind: type[Backend]) -> Arguments:
    """What a backend is made with; one that takes any name (``**options``) hands on what its base takes."""
    own = list(inspect.signature(kind).parameters.values())
    needed = (one.name for one in own if one.kind in _BY_NAME and one.default is one.empty)
    names, is_open = _by_name(own)
    _, *bases = [one for one in kind.__mro__ if "__init__" in vars(one)]
    for base in bases:
        if is_open and base is not object:
            _, *parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            more, is_open = _by_name(parameters)
            names += more
    return Arguments(names=tuple(dict.fromkeys(names)), needed=tuple(needed), is_open=is_open)


def _by_name(parameters: Iterable[Parameter]) -> tuple[list[str], bool]:
    """The parameters that have a name to be handed by, and whether any other name will do."""
    kinds = {one.name: one.kind for one in parameters}
    named = [name for name, kind in kinds.items() if kind in _BY_NAME]
    return named, Parameter.VAR_KEYWORD in kinds.values()


def _loaded(row: metadata.EntryPoint) -> type[Backend]:
    whose = _distribution(row)
    mend = f"reinstall {whose}, or uninstall it"
    try:
        kind = row.load()
    except guard.ANYTHING as error:  # somebody else's module
        said = f"{whose} says it is {row.value}, which cannot be loaded: {guard.said(error)}"
        raise _refused(row.name, said, mend) from error
    missing = ", ".join(lacks(kind))
    if not isinstance(kind, type) or missing:
        said = f"{whose} says it is {row.value}, which is no backend" + (missing and f": it has no {missing}")
        raise _refused(row.name, said, mend)
    return kind


def _distribution(row: metadata.EntryPoint) -> str:
    return row.dist.name if row.dist is not None else "a distribution without a name"


def _absent(name: str) -> SpecError:
    known, near, name = names(), nearest(name), redact(name)
    fix = f"install the package that brings it: one with `{name} = ...` in its entry points {GROUP}"
    if near:
        fix = f"did you mean {' or '.join(near)}? Otherwise {fix}"
    if not known:
        fix = "install gputrain itself: pip install gputrain; its own backends are entry points, too"
    allowed = f"one that is installed: {', '.join(known) or 'none'}"
    fault = Fault(field="backend", value=repr(name), allowed=allowed, fix=fix)
    return SpecError(f"no backend is called {name!r} here", why=allowed, fix=fix, faults=(fault,))


def _refused(name: str, why: str, fix: str) -> SpecError:
    fault = Fault(field="backend", value=repr(name), allowed="a backend that can be used", fix=fix)
    return SpecError(f"the backend {name!r} cannot be used: {why}", why=why, fix=fix, faults=(fault,))
