"""The part of docs/reference/errors.md that is written from the tables.

``python -m tests.unit.google.errors_page`` writes it anew.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from gputrain.causes import CAUSES, Cause
from gputrain.errors import (
    AccessError,
    CapacityError,
    ProviderError,
    QuotaExceededError,
    RequestError,
    TransientError,
)
from gputrain.google.errors import RULES, ErrorDetails, Rule, to_error
from gputrain.lifecycle import State
from tests.unit.google.refusals_told import TOLD

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "errors.md"
BEGIN, FINISH = "<!-- from here on written from the tables -->", "<!-- to here -->"

GROUPS = (
    ("No capacity", CapacityError),
    ("No quota", QuotaExceededError),
    ("Your account", AccessError),
    ("Your request", RequestError),
    ("Temporary", TransientError),
)
FIRST = (
    "stockout", "stockout_region", "not_in_zone", "not_in_region", "quota_region", "quota_project",
    "permission", "act_as", "api_disabled", "org_policy", "credentials_missing", "credentials_refused",
    "request", "gpu_misfit", "rate", "unclear",
)  # fmt: skip
"""What is met most often stands first in its group."""

VMS = "create the VMs in us-central1-b"
UNKNOWN = ErrorDetails(
    where="operation", status=503, codes=frozenset({"NEW_TROUBLE"}), message="Something new."
)


def shown(details: ErrorDetails, action: str = VMS) -> str:
    """What a user sees of an error, as the last lines of a traceback."""
    error = to_error(details, action, project="my-project")
    return f"{type(error).__name__}: {error}"


def entry(rule: Rule) -> Iterator[str]:
    again, elsewhere = ("yes" if claim else "no" for claim in (rule.error.retryable, rule.try_elsewhere))
    yield f"### {rule.name}\n"
    facts = f"reaches: {rule.scope.value} · retried: {again} · tried elsewhere: {elsewhere}"
    yield f"`{rule.error.__name__}` · {facts}\n"
    yield f"```text\n{shown(TOLD[rule.name].example, TOLD[rule.name].action)}\n```\n"
    yield f"{TOLD[rule.name].advice}\n"


def entry_of_end(cause: Cause) -> Iterator[str]:
    error = "JobFailedError" if cause.state is State.FAILED else "JobError"
    again = " · started again by `max_restarts`" if cause.may_restart else ""
    yield f"### {cause.kind}\n"
    yield f"`{error}` · {cause.title}{again}\n"
    told = re.search(rf"^### {cause.kind}\n\n.*\n\n(.*)\n\nTo do:", PAGE.read_text(), re.MULTILINE)
    yield f"{told[1] if told else ''}\n"  # which is written by hand
    yield f"To do: {cause.fix}.\n"


def groups() -> Iterator[tuple[str, list[Rule]]]:
    """The rules under each heading; a rule stands under the first that fits."""
    for number, (title, error) in enumerate(GROUPS):
        above = tuple(kind for _, kind in GROUPS[:number])
        rules = [
            rule for rule in RULES if issubclass(rule.error, error) and not issubclass(rule.error, above)
        ]
        yield title, sorted(rules, key=lambda it: FIRST.index(it.name) if it.name in FIRST else len(FIRST))


def refusals() -> Iterator[str]:
    yield "## It says: could not ...\n"
    yield "By what follows the last colon of the first line:\n"
    for title, rules in groups():
        yield f"- **{title}**"
        yield from (f"  - [{rule.title}](#{rule.name})" for rule in rules)
    yield "- **Unknown**"
    yield f"  - [Google's answer is unknown](#{ProviderError.kind})\n"
    for _, rules in groups():
        for rule in rules:
            yield from entry(rule)
    yield f"### {ProviderError.kind}\n"
    yield "`ProviderError` · reaches: call · retried: no · tried elsewhere: no\n"
    yield f"```text\n{shown(UNKNOWN)}\n```\n"
    yield "`error.code` and `error.raw` hold the answer."
    yield "The call is not sent again, because it may have been done."
    yield "A job that failed without a reason has this kind, too."
    yield "An empty log with exit code 1 means that the job's account lacks `roles/logging.logWriter`.\n"


def ends() -> Iterator[str]:
    known = {rule.name for rule in RULES} | {ProviderError.kind}
    yield "## It says: ... failed, or ended as ...\n"
    yield "The job ran, or was about to. `error.kind` is the first cause, not its effects on other ranks.\n"
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
