"""The record of each job, and where it is kept: a bucket, or a folder of this machine."""

from gputrain.jobstore.folder import FolderStore
from gputrain.jobstore.record import (
    Attempt,
    ConflictError,
    JobRecord,
    Launch,
    Option,
    PastAttempt,
    RecordError,
    Wanted,
    check_alike,
    from_json,
    read_spec,
    spec_of,
    to_json,
)  # fmt: skip
from gputrain.jobstore.store import (
    BucketStore,
    Conflict,
    Document,
    DocumentStore,
    JobRef,
    JobStore,
    Stored,
    Version,
)

__all__ = [
    "Attempt", "BucketStore", "Conflict", "ConflictError", "Document", "DocumentStore", "FolderStore",
    "JobRecord", "JobRef", "JobStore", "Launch", "Option", "PastAttempt", "RecordError", "Stored", "Version",
    "Wanted", "check_alike", "from_json", "read_spec", "spec_of", "to_json",
]  # fmt: skip
