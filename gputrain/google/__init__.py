"""The plumbing to Google Cloud that backends share: access, answers, lists, labels.

::

    access = GoogleClient(project=..., credentials=..., endpoints=...)    one tenant's way to Google
    access.get(access.url(Api.COMPUTE) + "/...", action="...")      REST: retried, ended in time, guarded
    access.tried(call, action="...", policy=LOOK)                   the same for an official client's call
    Objects(access, "my-bucket").read("jobs/a/record")              one bucket's objects
    Cache(fresh_s=1.0).get(key, fetch)                              many threads, few calls

Google's libraries are loaded when the first call is made.
"""

from gputrain.google.client import GoogleClient as GoogleClient
from gputrain.google.endpoints import Api as Api, Endpoints as Endpoints
from gputrain.google.errors import (
    ErrorDetails as ErrorDetails,
    MissingError as MissingError,
    PreconditionError as PreconditionError,
    UnclearError as UnclearError,
    google_errors as google_errors,
    most_severe as most_severe,
    operation_error as operation_error,
    to_error as to_error,
)
from gputrain.google.forms import Listing as Listing, PartialListError as PartialListError
from gputrain.google.labels import (
    LABEL_ATTEMPT as LABEL_ATTEMPT,
    LABEL_JOB as LABEL_JOB,
    LABEL_NAME as LABEL_NAME,
    LABEL_OWNER as LABEL_OWNER,
    filter_text as filter_text,
    label_value as label_value,
    our_labels as our_labels,
)
from gputrain.google.storage import Object as Object, ObjectInfo as ObjectInfo, Objects as Objects
