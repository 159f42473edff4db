"""What a backend can do, told by what it has: it keeps records, so that any process may go on with a job.

Nothing of it is misspelt, nothing of the core is missing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from gputrain.backends.base import (
    Attaches,
    Backend,
    Bundle,
    ChecksRefs,
    CleansUp,
    Completes,
    JobRef,
    OpensShells,
    Preflights,
    SendsCode,
    SpeaksGcloud,
    TellsQuotas,
    Tidies,
)
from gputrain.backends.results import AsksForStacks
from gputrain.errors import GputrainError
from gputrain.records import Ask, Board, Code, Record

if TYPE_CHECKING:
    from gputrain.images import Works


class Recorder(Protocol):
    """Knows what a record of this backend's speaks of: its names, its code, whether it is there."""

    @property
    def board(self) -> Board:
        """Where records are kept."""
        ...

    @property
    def settles_s(self) -> float:
        """How long after its asker went away something may still come that was asked for.

        0 where a create twice is a create once, and seen at once.
        """
        ...

    @property
    def turn_s(self) -> float:
        """How old an ask without an answer must be before another process goes on with it.

        Longer than whoever asked can still be at it, unless `repeats`.
        """
        ...

    @property
    def repeats(self) -> bool:
        """Whether to ask again under an ask's nonce is that same ask, so that two who do so make one job."""
        ...

    @property
    def choices(self) -> Mapping[str, str]:
        """The settings that a job keeps: another process starts it again only under the same ones."""
        ...

    def code(self, code: Code) -> Bundle | None:
        """The code of that hash, where this backend would look for it; None where it cannot be told."""
        ...

    def name_of(self, record: Record) -> JobRef:
        """The name of the job that a record is about."""
        ...

    def there(self, record: Record) -> JobRef | None:
        """The job's name, if what was asked for last is there. One look, by the names that were asked for.

        Raises:
            CapacityError: it was taken, and came to nothing.
        """
        ...

    def clear(self, record: Record) -> bool:
        """Remove what was asked for last, and see that it is gone.

        False where nothing was seen, and something may still come.

        Raises:
            TransientError: something of it may be there still.
        """
        ...


@runtime_checkable
class BarsLate(Protocol):
    """A recorder whose jobs may come long after they were asked for: it can keep one from training then."""

    def may_come(self, record: Record) -> bool:
        """Whether this process has sent the latest ask and had no answer to it, to one time at least."""
        ...

    def bar(self, record: Record) -> Ask | None:
        """See that no job of this id trains that comes from now on; the ask whose job has come before."""
        ...

    def let_in(self, record: Record) -> None:
        """Let what is asked for now train where `bar` let nothing; what a cancel has barred stays so."""
        ...

    def shut(self, job_id: str) -> GputrainError | None:
        """Have no job of this id begin any more, as it was cancelled; what was refused."""
        ...


@runtime_checkable
class KeepsRecords(Protocol):
    """Writes down what is asked of it, so that any process may go on with a job."""

    @abstractmethod
    def recorder(self) -> Recorder | None:
        """What knows those records; None where no place for them was named, which is enough to watch."""


@runtime_checkable
class FindsTheEnd(Protocol):
    """Its logs can be read from near their end."""

    @abstractmethod
    def cursor_near_end(self, ref: JobRef, lines: int) -> str:
        """A cursor for `logs` after which about so many lines are left; empty: all of them. A guess."""


@runtime_checkable
class RunsInAPython(Protocol):
    """Its ranks run on this machine, in a Python to which a person may add packages."""

    @abstractmethod
    def python(self, ref: JobRef) -> str:
        """The interpreter of the job's ranks; empty: not known."""


@runtime_checkable
class BuildsImages(Protocol):
    """Its jobs run in containers, and the project has a place for images of its own."""

    @property
    @abstractmethod
    def works(self) -> Works:
        """Where they are built, once each, and kept."""


@runtime_checkable
class StandsIn(Protocol):
    """What it speaks to may be an emulator, which whoever sees its jobs should know."""

    @property
    @abstractmethod
    def trial(self) -> str:
        """The address of the emulator; empty: this is no trial."""


ABILITIES: tuple[type, ...] = (
    Attaches,
    BuildsImages,
    ChecksRefs,
    Completes,
    FindsTheEnd,
    RunsInAPython,
    SendsCode,
    KeepsRecords,
    Tidies,
    CleansUp,
    Preflights,
    TellsQuotas,
    OpensShells,
    AsksForStacks,
    SpeaksGcloud,
    StandsIn,
)
"""What a backend may be able to do beyond `Backend`."""


def members(protocol: type) -> frozenset[str]:
    """The names that a protocol asks for.

    >>> sorted(members(CleansUp))
    ['clean_up', 'orphans']
    """
    return frozenset(name for name in vars(protocol) if not name.startswith("_"))


def lacks(backend: object) -> tuple[str, ...]:
    """What a value lacks to be a `Backend`; empty for one that is. No property is asked.

    >>> class Slurm:
    ...     find = ()
    >>> "find (a method)" in lacks(Slurm)
    True
    """
    missing = members(Backend) - set(dir(backend))
    return tuple(sorted(missing | _misfits(backend, Backend, members(Backend) - missing)))


def strays(backend: object) -> tuple[str, ...]:
    """Public names of a backend that nobody will ever call: misspelt, or one half of an ability.

    A backend's own tests assert that there are none.

    >>> from gputrain.backends.local import Local
    >>> strays(Local())
    ()
    """
    has = {name for name in dir(backend) if not name.startswith("_")}
    named = [one for one in (Backend, *ABILITIES) if members(one) <= has]
    whole = [members(one) for one in named if not _misfits(backend, one, members(one))]
    return tuple(sorted(has.difference(*whole)))


def _misfits(backend: object, protocol: type, names: Iterable[str]) -> set[str]:
    """Those of these names that are no method where one is due, or one where a property is."""
    kind = backend if isinstance(backend, type) else type(backend)  # where a property tells nothing yet
    there = {name: getattr(kind, name) if hasattr(kind, name) else getattr(backend, name) for name in names}
    due = {name: "a property" if isinstance(vars(protocol)[name], property) else "a method" for name in names}
    return {f"{name} ({due[name]})" for name in there if callable(there[name]) != (due[name] == "a method")}
