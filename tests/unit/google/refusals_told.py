"""Each kind of refusal as Google says it, and what a reader should know beside the fix.

The examples of ``refusals_told.tsv`` prove that the table of `gputrain.google.errors` knows them; the page of
errors shows both.
"""

import csv
import json
from pathlib import Path

import attrs

from gputrain.google.errors import ErrorDetails, ReportedQuota


@attrs.frozen(kw_only=True)
class Told:
    """What stands of one kind on the page of errors."""

    advice: str
    example: ErrorDetails
    """As Google says it."""
    action: str


def _read(path):
    for kind, action, where, status, codes, more, message, advice in csv.reader(
        path.read_text().splitlines()[1:], delimiter="\t", quoting=csv.QUOTE_NONE
    ):
        details = json.loads(more or "{}")
        quota = ReportedQuota(**details["quota"]) if "quota" in details else None
        example = ErrorDetails(
            where=where, status=int(status), codes=frozenset(codes.split()), quota=quota,
            metadata=details.get("metadata", {}), message=message.replace(r"\n", "\n").replace(r"\t", "\t"),
        )  # fmt: skip
        yield kind, Told(advice=advice.replace(r"\n", "\n"), example=example, action=action)


TOLD = dict(_read(Path(__file__).with_name("refusals_told.tsv")))
"""By the name of the rule."""
