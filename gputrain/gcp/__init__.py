"""The plumbing to Google Cloud that backends share: access, answers, lists, labels.

::

    Access(project=..., credentials=..., endpoints=...)     one frozen value for a tenant
    access.rest("GET", access.url(Api.STORAGE) + "/storage/v1/b/my-bucket")
    access.client("jobs", make)                             an official client, made once and shared
    with translated("create a job"): ...                    Google's refusals become gputrain's errors

Nothing here retries: `gputrain.retry` does, for callers who know that a call may be repeated.
Google's libraries are loaded when the first call is made.
"""

from gputrain.gcp.access import Access, Api, Endpoints
from gputrain.gcp.answer import Answer, answer_of_operation
from gputrain.gcp.errors import MissingError, PreconditionError, UnclearError
from gputrain.gcp.labels import LABEL_JOB, LABEL_NAME, filter_text, label_value, our_labels
from gputrain.gcp.paging import Listing, Page, read_all
from gputrain.gcp.refusals import gravest, to_error
from gputrain.gcp.translate import read_answer, translated

__all__ = [
    "LABEL_JOB",
    "LABEL_NAME",
    "Access",
    "Answer",
    "Api",
    "Endpoints",
    "Listing",
    "MissingError",
    "Page",
    "PreconditionError",
    "UnclearError",
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
