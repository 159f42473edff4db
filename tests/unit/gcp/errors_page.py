"""The part of docs/reference/errors.md that is written from the tables.

``python -m tests.unit.gcp.errors_page`` writes it anew.
"""

from collections.abc import Iterator
from pathlib import Path

from gputrain.causes import CAUSES, Cause
from gputrain.errors import ProviderError
from gputrain.gcp.answer import Answer, Surface
from gputrain.gcp.kinds import KINDS, Kind, account, passing, place, quota, request
from gputrain.gcp.refusals import to_error
from gputrain.lifecycle import State
from tests.unit.gcp.refusals_told import TOLD

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "errors.md"
BEGIN, FINISH = "<!-- from here on written from the tables -->", "<!-- to here -->"

GROUPS = (
    ("No room there", place.KINDS),
    ("No quota", quota.KINDS),
    ("Your account", account.KINDS),
    ("Your request", request.KINDS),
    ("It passes", passing.KINDS),
)
FIRST = (
    "stockout", "stockout_region", "not_in_zone", "not_in_region", "quota_region", "quota_project",
    "permission", "act_as", "api_disabled", "org_policy", "credentials_missing", "credentials_refused",
    "request", "gpu_misfit", "rate", "unclear",
)  # fmt: skip
"""What is met most often stands first in its group."""

DOING = {
    Surface.STORAGE: "write gs://my-bucket/records/bert-1.json",
    Surface.COMPUTE: "create the VMs in us-central1-b",
    Surface.OPERATION: "create the VMs in us-central1-b",
    Surface.VERTEX: "create the job in us-central1",
    Surface.AUTH: "get a token",
}
UNKNOWN = Answer(
    surface=Surface.OPERATION, status=503, codes=frozenset({"NEW_TROUBLE"}), message="Something new."
)


def shown(answer: Answer) -> str:
    """What a user sees of an answer, as the last lines of a traceback."""
    error = to_error(answer, DOING[answer.surface], project="my-project")
    return f"{type(error).__name__}: {error}"


def entry(kind: Kind) -> Iterator[str]:
    again, elsewhere = ("yes" if claim else "no" for claim in (kind.error.retryable, kind.goes_elsewhere))
    yield f"### {kind.name}\n"
    facts = f"reaches: {kind.reach.value} · retried: {again} · tried elsewhere: {elsewhere}"
    yield f"`{kind.error.__name__}` · {facts}\n"
    yield f"```text\n{shown(TOLD[kind.name].example)}\n```\n"
    yield f"{TOLD[kind.name].advice}\n"


def entry_of_end(cause: Cause) -> Iterator[str]:
    error = "JobFailedError" if cause.state is State.FAILED else "JobError"
    again = " · started again by `max_restarts`" if cause.may_restart else ""
    yield f"### {cause.kind}\n"
    yield f"`{error}` · {cause.title}{again}\n"
    yield f"{cause.advice}\n"
    yield f"To do: {cause.fix}.\n"


def ordered(kinds: tuple[Kind, ...]) -> list[Kind]:
    return sorted(kinds, key=lambda kind: FIRST.index(kind.name) if kind.name in FIRST else len(FIRST))


def refusals() -> Iterator[str]:
    yield "## It says: could not ...\n"
    yield "What stands behind the last colon of the first line:\n"
    for title, kinds in GROUPS:
        yield f"- **{title}**"
        yield from (f"  - [{kind.title}](#{kind.name})" for kind in ordered(kinds))
    yield "- **Nobody foresaw it**"
    yield f"  - [Google's answer is unknown](#{ProviderError.kind})\n"
    for _, kinds in GROUPS:
        for kind in ordered(kinds):
            yield from entry(kind)
    yield f"### {ProviderError.kind}\n"
    yield "`ProviderError` · reaches: call · retried: no · tried elsewhere: no\n"
    yield f"```text\n{shown(UNKNOWN)}\n```\n"
    yield "`error.code` and `error.raw` hold what was said."
    yield "It is never guessed at and never sent a second time: nobody knows whether it was done."
    yield "A job that failed without a word has this kind, too."
    yield f"{CAUSES[ProviderError.kind].advice}\n"


def ends() -> Iterator[str]:
    known = {kind.name for kind in KINDS} | {ProviderError.kind}
    yield "## It says: ... failed, or ended as ...\n"
    yield "The job ran, or was about to. `error.kind` is the first cause, never its echoes on other ranks.\n"
    for cause in CAUSES.values():
        yield f"- [{cause.title}](#{cause.kind})"
    yield ""
    for cause in CAUSES.values():
        if cause.kind not in known:
            yield from entry_of_end(cause)


def written() -> str:
    """The part between the marks."""
    return "\n".join([BEGIN, "", *refusals(), *ends(), FINISH])


def page() -> str:
    """The whole page, with that part as it should be."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    return before + written() + rest.split(FINISH)[1]


if __name__ == "__main__":
    PAGE.write_text(page())
