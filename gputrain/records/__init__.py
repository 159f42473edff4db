"""What was asked for a job: written down before it is asked, for whoever comes after.

One form for every backend. It lies on a `Board` (a folder of this machine, a bucket), is changed only by
whoever read it last, and is never an order to be carried out: whoever goes on renders anew, from settings of
its own. What a record says of accounts, networks and boot images is there to be compared, and never used.
"""

from gputrain.records.alike import ConflictError, check_alike, check_same
from gputrain.records.board import Board, Entry, MemoryBoard, Note, OvertakenError, ended, surely
from gputrain.records.bucket import BucketBoard
from gputrain.records.folder import FolderBoard
from gputrain.records.form import DamagedRecordError, read_record
from gputrain.records.record import (
    CANCELLED,
    MADE,
    WITHDRAWN,
    Ask,
    Code,
    Record,
    Way,
)
from gputrain.records.spec import RecordError, read_spec

__all__ = [
    "CANCELLED",
    "MADE",
    "WITHDRAWN",
    "Ask",
    "Board",
    "BucketBoard",
    "Code",
    "ConflictError",
    "DamagedRecordError",
    "Entry",
    "FolderBoard",
    "MemoryBoard",
    "Note",
    "OvertakenError",
    "Record",
    "RecordError",
    "Way",
    "check_alike",
    "check_same",
    "ended",
    "read_record",
    "read_spec",
    "surely",
]
