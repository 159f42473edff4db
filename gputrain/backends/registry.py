"""The backends that are installed, ours and others': the entry points of one group, read when one is named.

A distribution brings a backend with two lines of its ``pyproject.toml``::

    [project.entry-points."gputrain.backends"]
    slurm = "gputrain_slurm:Slurm"
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

from gputrain.backends.abilities import lacks
from gputrain.backends.base import Attaches, Backend, JobRef
from gputrain.errors import Fault, GputrainError, SpecError
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
        return backend.find(name=name), None
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
    given = {key: arguments[key] for key in arguments if key in takes(kind)}
    mend = f"gputrain.attach(uri, backend={kind.__name__}(...)), and tell whoever wrote it"
    return made(ref.backend, lambda: kind.for_ref(ref, **given), "a job's name", mend)


def made(name: str, make: Callable[[], Backend], source: str, mend: str) -> Backend:
    """What is made of a source (its settings, a job's name), seen to be the backend of that name.

    Raises:
        SpecError: as its maker says, or it is none, or another.
    """
    try:
        backend = make()
        missing = ", ".join(lacks(backend))
        said = f"it has no {missing}" if missing else f"it calls itself {backend.name!r}"
        is_it = not missing and backend.name == name
    except GputrainError:
        raise
    except Exception as error:  # of somebody else's code: whatever it is, it says which backend
        raise _refused(name, f"from {source} came {_said(error)}", mend) from error
    if not is_it:
        raise _refused(name, f"what is made from {source} is another: {said}", mend)
    return backend


def takes(kind: type[Backend]) -> Mapping[str, inspect.Parameter]:
    """The arguments that a backend is made with, by name."""
    return inspect.signature(kind).parameters


def _loaded(row: metadata.EntryPoint) -> type[Backend]:
    whose = _distribution(row)
    mend = f"reinstall {whose}, or uninstall it"
    try:
        kind = row.load()
    except (Exception, SystemExit) as error:  # somebody else's module may raise anything
        said = f"{whose} says it is {row.value}, which cannot be loaded: {_said(error)}"
        raise _refused(row.name, said, mend) from error
    missing = ", ".join(lacks(kind))
    if not isinstance(kind, type) or missing:
        said = f"{whose} says it is {row.value}, which is no backend" + (missing and f": it has no {missing}")
        raise _refused(row.name, said, mend)
    return kind


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


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
