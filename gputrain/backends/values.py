"""What is handed across the seam: a job's name, its code, what is sent for it, and what is read of it.

Pure data. `gputrain.backends.base` hands it on, beside the protocols that speak of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote

import attrs

from gputrain.catalog import Price
from gputrain.errors import Fault, SpecError
from gputrain.fields import shown
from gputrain.lifecycle import is_moment
from gputrain.planning import Candidate
from gputrain.spec import TrainingSpec
from gputrain.tables import Shown, Told
from gputrain.terminal import safe

_SCHEME = "gputrain://"


@attrs.frozen(kw_only=True)
class JobRef:
    """The name of one job, wherever it runs.

    >>> JobRef.parse("gputrain://compute/my-project/us-central1-a/bert-x1y2").name
    'bert-x1y2'
    """

    backend: str
    project: str
    """Whose it is, where a platform has such a thing: empty where it has none."""
    place: str
    """A zone or region; for `Local`, the folder that holds its jobs, or nothing for the usual one."""
    name: str
    made_at: float = attrs.field(default=0.0, eq=False, repr=False)
    """Seconds since 1970, where a list tells it; no part of the name."""

    @property
    def uri(self) -> str:
        """The name as one string that any process can attach to."""
        where = (self.project, self.place) if self.place else ()
        return _SCHEME + "/".join(quote(part, safe="") for part in (self.backend, *where, self.name))

    @classmethod
    def parse(cls, uri: str) -> JobRef:
        """Read a ``gputrain://`` name.

        Raises:
            SpecError: it has not the form ``gputrain://backend/project/place/name``, or for a job in the
                usual folder of this machine ``gputrain://local/name``.
        """
        is_name = isinstance(uri, str) and uri.startswith(_SCHEME)
        parts = [unquote(part) for part in uri.removeprefix(_SCHEME).split("/")] if is_name else []
        if len(parts) not in (2, 4) or not all((parts[0], *parts[2:], parts[-1])):
            form, fix = "gputrain://backend/project/place/name", "trainer.jobs() lists those there are"
            fault = Fault(field="uri", value=shown(uri), allowed=form, fix=fix)
            raise SpecError(f"{fault.value} names no job", why=f"it must be {form}", fix=fix, faults=(fault,))
        project, place = parts[1:-1] or ("", "")
        return cls(backend=parts[0], project=project, place=place, name=parts[-1])

    def __str__(self) -> str:
        return self.uri


@attrs.frozen(kw_only=True)
class Bundle:
    """The code of a job, ready to run: where it lies, and how it is started there."""

    location: str
    """A folder on this machine, or the ``gs://`` object that holds the tarball."""
    argv: tuple[str, ...]
    """What follows ``--`` on the entrypoint's command line: ``train.py --lr 3e-4``, ``-m pkg.train``..."""
    sha256: str = ""
    content: bytes = attrs.field(default=b"", eq=False, repr=False)
    """What is to lie there, until it was sent; empty where there is nothing to send."""


@attrs.frozen(kw_only=True)
class Start:
    """One start of a job: what it is made from."""

    spec: TrainingSpec
    candidate: Candidate
    job_id: str
    bundle: Bundle
    attempt: int = 0
    """0 for the first start of the job, one more with each restart."""
    nonce: str = ""
    """Drawn for this ask; what is made bears it, so that it is told from what another ask made."""


@attrs.frozen(kw_only=True)
class Request:
    """What a backend sends to start one job: pure data, looked at in golden tests."""

    ref: JobRef
    candidate: Candidate
    body: Mapping[str, Any]
    """JSON types only; of a backend that completes its requests, a draft until then."""
    names: tuple[str, ...] = ()
    """What it would make, by name: known before it is asked for."""
    image: str = ""
    """What its ranks run in, by digest; empty: in none, or its tag is all that is known."""


@attrs.frozen(kw_only=True)
class LogLine(Told):
    """One line that a rank (or a node's agent, where ``rank`` is None) wrote."""

    message: str
    rank: int | None = None
    node_rank: int | None = None
    severity: str = "INFO"
    time: datetime | None = attrs.field(default=None, validator=is_moment)
    """When it was written; timezone-aware."""

    def __str__(self) -> str:
        return f"[{'agent' if self.rank is None else self.rank}] {safe(self.message)}"


@attrs.frozen(kw_only=True)
class LogPage:
    """Lines since a cursor, oldest first, and the cursor for the next page."""

    lines: tuple[LogLine, ...]
    cursor: str
    missed_bytes: int = 0
    """Bytes that the platform threw away before they could be read."""
    has_more: bool = False
    """More is there already, though these may be none."""


@attrs.frozen(kw_only=True)
class Orphan(Shown):
    """Something of ours that is there, and billed, and belongs to no living job."""

    name: str
    place: str
    job_id: str
    status: str
    """As the platform calls it."""
    price: Price | None
    """What it costs an hour, at the dated price; None: unknown. A halted machine pays for its disk only."""
