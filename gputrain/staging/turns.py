"""Whose turn it is to place a job: one object in its bucket, changed only by whoever read it last.

Each backend makes a job of one id once. Where several backends may take it, a turn keeps two processes with
the same idempotency key from asking two of them at once. It ends by itself when its owner is gone.
"""

from __future__ import annotations

import contextlib
import json
from urllib.parse import quote

import attrs

from gputrain.gcp import Access, Api, MissingError, PreconditionError
from gputrain.retry import WRITE, retried
from gputrain.staging.bucket import Bucket

TURN_S = 180.0
"""How long a turn lasts that is not prolonged: longer than a place usually takes to answer."""


@attrs.frozen(kw_only=True)
class _Turn:
    owner: str = ""
    until: float = 0.0
    """In seconds since 1970."""
    generation: int = 0
    """Of the object; 0: there is none."""


@attrs.frozen(kw_only=True)
class Turns:
    """The turns of one bucket."""

    access: Access
    bucket: Bucket

    def take(self, job_id: str, owner: str) -> bool:
        """Take the turn; False while it is another's."""
        there = self._read(job_id)
        if there.owner not in ("", owner) and there.until > self.access.now():
            return False
        return self._write(job_id, owner, there)

    def keep(self, job_id: str, owner: str) -> bool:
        """Prolong the turn; False where another has had it since."""
        there = self._read(job_id)
        return there.owner == owner and self._write(job_id, owner, there)

    def _write(self, job_id: str, owner: str, there: _Turn) -> bool:
        body = json.dumps({"owner": owner, "until": self.access.now() + TURN_S}).encode()
        params = {
            "uploadType": "media", "name": self._name(job_id), "ifGenerationMatch": str(there.generation),
        }  # fmt: skip
        url = f"{self.access.url(Api.STORAGE)}/upload/storage/v1/b/{self.bucket.name}/o"
        action = f"take the turn to place {job_id}"
        try:
            retried(
                lambda: self.access.rest("POST", url, action=action, params=params, data=body),
                policy=WRITE,
                sleep=self.access.sleep,
            )
        except PreconditionError:  # somebody was quicker, or it was ours and the answer was lost
            return self._read(job_id).owner == owner
        return True

    def end(self, job_id: str, owner: str) -> None:
        """Let others have their turn."""
        there = self._read(job_id)
        if there.owner != owner:
            return
        params = {"ifGenerationMatch": str(there.generation)}
        action = f"end the turn to place {job_id}"
        with contextlib.suppress(MissingError, PreconditionError):
            retried(
                lambda: self.access.rest("DELETE", self._url(job_id), action=action, params=params),
                policy=WRITE,
                sleep=self.access.sleep,
            )

    def _read(self, job_id: str) -> _Turn:
        action = f"see whose turn it is to place {job_id}"
        try:
            response = retried(
                lambda: self.access.rest("GET", self._url(job_id), action=action, params={"alt": "media"}),
                sleep=self.access.sleep,
            )
        except MissingError:
            return _Turn()
        fields = json.loads(response.content)
        return _Turn(generation=int(response.headers["x-goog-generation"]), **fields)

    def _url(self, job_id: str) -> str:
        name = quote(self._name(job_id), safe="")
        return f"{self.access.url(Api.STORAGE)}/storage/v1/b/{self.bucket.name}/o/{name}"

    def _name(self, job_id: str) -> str:
        return self.bucket.object_name("jobs", job_id, "turn")
