"""From an API's refusal to one of gputrain's errors. Pure."""

from __future__ import annotations

import string
from typing import Any

from gputrain.errors import GputrainError, ProviderError
from gputrain.gcp.answer import Answer
from gputrain.gcp.rules import TABLE


def to_error(answer: Answer, action: str) -> GputrainError:
    """The error for a refusal, with Google's own words as its ``why`` and the payload as its ``raw``.

    Args:
        answer: what the API said.
        action: what was being done, in a few words: ``"create the job"``.

    >>> type(to_error(Answer(status=404, message="no such job"), "look at the job")).__name__
    'MissingError'
    """
    for row in TABLE:
        meets, found = row.matches(answer)
        if meets:
            facts = row.facts(answer, found)
            fix = _Fix().format(row.fix, **{"project": _project(answer), **facts})
            known = {name: value for name, value in facts.items() if hasattr(row.error, name)}
            why = answer.message or row.name
            return row.error(f"could not {action}", why=why, fix=fix, raw=answer.raw, **known)
    return ProviderError(
        f"could not {action}: Google's answer is unknown",
        why=answer.message or f"status {answer.status} {answer.canonical}".strip(),
        fix="report the answer in this error's raw field",
        raw=answer.raw,
        code=answer.canonical or str(answer.status),
    )


def _project(answer: Answer) -> str:
    return answer.metadata.get("consumer", "").rpartition("/")[2] or "PROJECT"


class _Fix(string.Formatter):
    """Fills in what is known; an unknown fact stays as a word in capitals for the reader to fill in."""

    def get_value(self, key: Any, args: Any, kwargs: Any) -> Any:  # noqa: ARG002  # string.Formatter's
        return kwargs.get(key) or str(key).upper()
