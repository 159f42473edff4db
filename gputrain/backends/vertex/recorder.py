"""Vertex AI's side of a record: from what was asked for to the custom job that bears its nonce."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gputrain.backends.base import Bundle, JobRef
from gputrain.backends.vertex import once
from gputrain.backends.vertex.locks import Locks
from gputrain.backends.vertex.offers import NAME
from gputrain.backends.vertex.settings import VertexSettings
from gputrain.backends.vertex.states import SeenJob
from gputrain.backends.vertex.whereabouts import Whereabouts
from gputrain.errors import AccessError, CapacityError, GputrainError, RequestError, Scope, TransientError
from gputrain.records import CANCELLED, BucketBoard, Code, Record, ended

_CHOICES = (
    "service_account", "network", "network_attachment", "tensorboard", "persistent_resource", "kms_key",
    "disk_gib", "disk_type", "reduction_server",
)  # fmt: skip


@attrs.frozen(kw_only=True)
class CustomJobRecorder:
    """As of `Recorder`."""

    settings: VertexSettings
    whereabouts: Whereabouts
    locks: Locks
    board: BucketBoard = attrs.field(init=False)

    @board.default
    def _make_board(self) -> BucketBoard:
        assert self.settings.bucket is not None, "records lie in a bucket"
        return BucketBoard(self.whereabouts.jobs.access, self.settings.bucket)

    @property
    def settles_s(self) -> float:
        """Jobs are found in lists, which promise nothing."""
        return 4.0

    @property
    def turn_s(self) -> float:
        """Longer than a create may take with its repetitions; until then lists may show what it made."""
        return 180.0

    @property
    def repeats(self) -> bool:
        """Vertex AI knows no request ids."""
        return False

    @property
    def choices(self) -> Mapping[str, str]:
        """What jobs are and may do by these settings."""
        return {name: str(getattr(self.settings, name)) for name in _CHOICES}

    def code(self, code: Code) -> Bundle | None:
        """The code of that hash in this backend's own bucket; to send it sees that it is there."""
        bucket = self.settings.bucket
        if bucket is None or not code.sha256:
            return None
        location = bucket.uri("code", f"{code.sha256}.tar.gz")
        return Bundle(location=location, argv=code.argv, sha256=code.sha256)

    def name_of(self, record: Record) -> JobRef:
        """The job's name, with the region that was asked last."""
        assert record.last is not None
        place = record.last.way.place
        return JobRef(backend=NAME, project=self.settings.project, place=place, name=record.job_id)

    def there(self, record: Record) -> JobRef | None:
        """The job's name, if a list shows the job that the latest ask has made.

        Raises:
            CapacityError: it was made, and there were no machines for it.
        """
        seen = self._of_ask(record)
        if seen is None:
            return None
        self.whereabouts.note(record.job_id, seen.resource)
        if once.found_no_room(seen):
            raise CapacityError(
                f"{seen.region} had no machines for {seen.job_id} a short while ago",
                why=seen.error,
                fix="allow more regions, GPUs or provisioning models, or try again later",
                place=seen.region,
                scope=Scope.REGION,
            )
        return self.name_of(record)

    def clear(self, record: Record) -> bool:
        """End the job that the latest ask has made, as far as lists show it; one that none shows may come."""
        seen = self._of_ask(record)
        if seen is not None and not seen.has_ended:
            once.end(self.whereabouts.jobs, seen)
        return seen is not None

    def end(self, job_id: str) -> GputrainError | None:
        """Write down that nobody starts the job again, and take its lock, so that one that comes late does
        nothing; what refused it, if something did."""
        try:
            ended(self.board, job_id, CANCELLED)
            self.locks.take(job_id)
        except (AccessError, RequestError, TransientError) as error:
            error.what = f"what runs of {job_id} ends, but a watcher may start it again: {error.what}"
            return error
        return None

    def _of_ask(self, record: Record) -> SeenJob | None:
        last = record.last
        assert last is not None
        return once.of_ask(self.whereabouts.jobs, last.way.place, record.job_id, last.nonce)
