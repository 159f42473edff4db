"""The plumbing to Google Cloud that backends share: access, answers, lists, labels.

::

    access = GoogleClient(project=..., credentials=..., endpoints=...)    one tenant's way to Google
    access.get(access.url(Api.COMPUTE) + "/...", action="...")      REST: retried, ended in time, guarded
    access.tried(call, action="...", policy=LOOK)                   the same for an official client's call
    Objects(access, "my-bucket").read("jobs/a/record")              one bucket's objects
    Shared(fresh_s=1.0).get(key, fetch)                             many threads, few calls

Google's libraries are loaded when the first call is made.
"""

from gputrain.google.client import GoogleClient
from gputrain.google.endpoints import Api, Endpoints
from gputrain.google.errors import (
    ErrorDetails,
    MissingError,
    PreconditionError,
    UnclearError,
    google_errors,
    most_severe,
    operation_error,
    to_error,
)
from gputrain.google.labels import (
    LABEL_ATTEMPT,
    LABEL_JOB,
    LABEL_NAME,
    LABEL_OWNER,
    filter_text,
    label_value,
    our_labels,
)
from gputrain.google.listing import Listing, Page, PartialListError, read_all
from gputrain.google.storage import Object, ObjectInfo, Objects

__all__ = [
    "LABEL_ATTEMPT",
    "LABEL_OWNER",
    "LABEL_JOB",
    "LABEL_NAME",
    "GoogleClient",
    "Api",
    "Endpoints",
    "ErrorDetails",
    "Listing",
    "MissingError",
    "Objects",
    "Page",
    "PartialListError",
    "PreconditionError",
    "Object",
    "ObjectInfo",
    "UnclearError",
    "filter_text",
    "google_errors",
    "label_value",
    "most_severe",
    "operation_error",
    "our_labels",
    "read_all",
    "to_error",
]
