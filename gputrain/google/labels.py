"""Labels that everything made carries, and texts that are safe inside a list filter. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

LABEL_JOB = "gputrain-job"
"""The job's id: by it a job is found again, by any process."""

LABEL_NAME = "gputrain-name"
"""The part of the id that people chose; several jobs may share it."""

LABEL_ATTEMPT = "gputrain-attempt"
"""The id of the attempt that it was made for: the job's record names the current one."""

LABEL_OWNER = "gputrain-home"
"""Whose records tell whether it is still needed: a hash of project, bucket and prefix."""

_FORM = re.compile(r"[a-z0-9_-]{0,63}")


def label_value(text: str) -> str:
    """The text as a label's value: itself where it may stand so, else cut and made distinct by a hash."""
    if _FORM.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    stem = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-")[:52]
    return f"{stem}-{digest}".strip("-")


def our_labels(job_id: str, theirs: Mapping[str, str]) -> dict[str, str]:
    return {
        **theirs,
        LABEL_JOB: label_value(job_id),
        LABEL_NAME: label_value(job_id.rpartition("-")[0] or job_id),
    }


def filter_text(text: str) -> str:
    """A text as a quoted value of a list filter; nothing in it can end the quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
