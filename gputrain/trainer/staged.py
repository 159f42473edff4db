"""The code of one job, ready for each backend that may run it."""

from __future__ import annotations

import attrs

from gputrain.backends.base import Backend, Bundle, Completes, Request, SendsCode
from gputrain.backends.recorder import Recorder
from gputrain.errors import RequestError
from gputrain.planning import Candidate
from gputrain.records import Record
from gputrain.spec import TrainingSpec


def whole(
    backend: Backend,
    spec: TrainingSpec,
    one: Candidate,
    job_id: str,
    bundle: Bundle,
    *,
    attempt: int = 0,
    nonce: str = "",
) -> Request:
    """The request as it is sent: the backend's draft, completed where it completes. Nothing is changed."""
    draft = backend.render(spec, one, job_id, bundle, attempt=attempt, nonce=nonce)
    return backend.complete(draft) if isinstance(backend, Completes) else draft


class Staged:
    """Stages code once for each backend: from its folder where it was submitted, by its hash anywhere else.

    Args:
        job_id: whose code.
        spec: as it was submitted; None in a process that took the job up by its name.
    """

    def __init__(self, job_id: str, spec: TrainingSpec | None = None) -> None:
        self._job_id = job_id
        self._spec = spec
        self._bundles: dict[str, Bundle] = {}
        self._sent: set[str] = set()
        self._sha256 = ""

    def on(self, backend: Backend, recorder: Recorder | None, record: Record | None) -> Bundle:
        """The bundle for a backend.

        Raises:
            SpecError: the entry is not there, or something in its folder cannot travel.
            RequestError: this process has no code to send, and the backend's place for code has none of it.
        """
        if backend.name not in self._bundles:
            self._bundles[backend.name] = self._made(backend, recorder, record)
        return self._bundles[backend.name]

    def send(self, backend: Backend) -> None:
        """See that the bundle is where the backend's jobs fetch it; once, and then let its content go.

        Raises:
            RequestError, AccessError: it cannot be sent, or was to be there and is not.
        """
        name = backend.name
        if isinstance(backend, SendsCode) and name not in self._sent:
            backend.send(self._bundles[name])
            self._bundles[name] = attrs.evolve(self._bundles[name], content=b"")
            self._sent.add(name)

    def _made(self, backend: Backend, recorder: Recorder | None, record: Record | None) -> Bundle:
        if self._spec is not None:
            bundle = backend.stage(self._spec, self._job_id)
            if not self._sha256 or not bundle.sha256 or bundle.sha256 == self._sha256:
                self._sha256 = bundle.sha256 or self._sha256
                return bundle  # else its folder has changed since, and what was submitted runs on
        if record is not None and recorder is not None:
            found = recorder.code(record.code)
            if found is not None:
                return found
        raise RequestError(
            f"the code of {self._job_id} is not where {backend.name} could find it",
            why="its folder has changed since it was submitted" if self._spec is not None else "",
            fix="wait for the job in the process that submitted it, or submit it again under the same key",
            try_elsewhere=True,
        )
