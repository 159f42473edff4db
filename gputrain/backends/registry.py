"""The installed backends: the entry points of one group, loaded when one is named.

A distribution brings a backend with two lines of its ``pyproject.toml``::

    [project.entry-points."gputrain.backends"]
    slurm = "gputrain_slurm:Slurm"
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from importlib import metadata
from inspect import Parameter
from typing import Any

from gputrain.backends.base import Backend
from gputrain.errors import SpecError
from gputrain.fields import invalid
from gputrain.text import redact

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
    """The names of the installed backends; none of them is loaded."""
    return tuple(sorted({one.name for one in metadata.entry_points(group=GROUP)}))


def find(name: str) -> type[Backend]:
    """The class of a backend.

    Raises:
        SpecError: none of that name is installed, several are, or the one there is cannot be loaded.
    """
    rows = list(metadata.entry_points(group=GROUP, name=name))
    if not rows:
        raise _absent(name)
    brought_by = " and ".join(sorted({row.dist.name if row.dist else "something" for row in rows}))
    if len({row.value for row in rows}) > 1:
        raise _refused(name, f"{brought_by} both bring one", "uninstall one of them")
    fix = f"reinstall {brought_by}, or uninstall it"
    try:
        kind = rows[0].load()
    except Exception as error:  # of somebody else's module
        why = f"{rows[0].value} of {brought_by} cannot be loaded: {type(error).__name__}: {error}"
        raise _refused(name, why, fix) from error
    if not (isinstance(kind, type) and issubclass(kind, Backend)):
        raise _refused(name, f"{rows[0].value} of {brought_by} is no class that inherits Backend", fix)
    return kind


def accepted(kind: type[Backend], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the arguments that a backend takes."""
    known = takes(kind)
    return {name: value for name, value in given.items() if name in known}


def takes(kind: type[Backend]) -> dict[str, Parameter]:
    """What a backend's constructor takes by name; one with ``**options`` hands on what its base takes."""
    own = dict(inspect.signature(kind).parameters)
    options = [name for name, one in own.items() if one.kind is Parameter.VAR_KEYWORD]
    for name in options:
        own = {**takes(kind.__mro__[1]), **own}
        del own[name]
    return own


def _absent(name: str) -> SpecError:
    known = names()
    meant = [one for one in _ALSO_CALLED.get(name.lower(), ()) if one in known]
    near = meant or difflib.get_close_matches(name.lower(), known, n=1)
    fix = f"install the package that brings it: one with `{redact(name)} = ...` in its entry points {GROUP}"
    if near:
        fix = f"did you mean {' or '.join(near)}? Otherwise {fix}"
    if not known:
        fix = "install gputrain itself; its own backends are entry points, too"
    allowed = f"one that is installed: {', '.join(known) or 'none'}"
    return invalid("backend", name, allowed, fix, what="no such backend is installed here")


def _refused(name: str, why: str, fix: str) -> SpecError:
    what = f"the backend {name!r} cannot be used: {why}"
    return invalid("backend", name, "a backend that can be used", fix, what=what)
