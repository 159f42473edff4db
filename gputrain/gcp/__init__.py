"""The plumbing to Google Cloud that backends share: access, answers, lists, labels.

::

    access = Access(project=..., credentials=..., endpoints=...)    one tenant's way to Google
    access.get(access.url(Api.COMPUTE) + "/...", action="...")      REST: retried, ended in time, guarded
    access.tried(call, action="...", policy=LOOK)                   the same for an official client's call
    Objects(access, "my-bucket").read("jobs/a/record")              one bucket's objects
    Shared(fresh_s=1.0).get(key, fetch)                             many threads, few calls

Google's libraries are loaded when the first call is made.
"""

from gputrain.gcp.answer import Answer, answer_of_operation
from gputrain.gcp.api import Access
from gputrain.gcp.endpoints import Api, Endpoints
from gputrain.gcp.errors import MissingError, PreconditionError, UnclearError, UndoneError
from gputrain.gcp.labels import (
    LABEL_GANG,
    LABEL_HOME,
    LABEL_JOB,
    LABEL_NAME,
    filter_text,
    label_value,
    our_labels,
)
from gputrain.gcp.listing import Listing, Page, PartialListError, WholeListing, read_all
from gputrain.gcp.objects import Objects, Stored, StoredInfo
from gputrain.gcp.refusals import gravest, to_error
from gputrain.gcp.translate import read_answer, translated

__all__ = [
    "LABEL_GANG",
    "LABEL_HOME",
    "LABEL_JOB",
    "LABEL_NAME",
    "Access",
    "Answer",
    "Api",
    "Endpoints",
    "Listing",
    "MissingError",
    "Objects",
    "Page",
    "PartialListError",
    "PreconditionError",
    "Stored",
    "StoredInfo",
    "UnclearError",
    "UndoneError",
    "WholeListing",
    "answer_of_operation",
    "filter_text",
    "gravest",
    "label_value",
    "our_labels",
    "read_all",
    "read_answer",
    "to_error",
    "translated",
]
