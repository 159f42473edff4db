"""The report as a value, and how it is shown; questions side by side and in stages."""

import io

import pytest
from rich.console import Console

from gputrain.doctor import Check, Checks, Finding, Probe, run_checks
from gputrain.errors import ApiDisabledError, AuthError, PermissionDeniedError, ProviderError, TransientError

LONG = "gcloud projects add-iam-policy-binding my-project --member user:YOU --role roles/compute.viewer"
REPORT = Checks(
    checks=[
        Check(backend="vertex", subject="one", finding=Finding.OK, group="permissions held", why="make"),
        Check(backend="vertex", subject="two", finding=Finding.OK, group="permissions held", why="look"),
        Check(backend="vertex", subject="image <1>", finding=Finding.UNKNOWN, why="not asked"),
        Check(backend="vertex", subject="three", finding=Finding.FAULT, why="you lack it", fix=LONG),
        Check(backend="vertex", subject="four", finding=Finding.FAULT, why="you lack it", fix=LONG),
    ]
)


def shown(width, **options):
    console = Console(file=io.StringIO(), width=width, **options)
    console.print(REPORT)
    return console.file.getvalue()


def test_a_check_takes_a_line_and_those_of_a_group_in_order_share_one():
    assert str(REPORT).splitlines() == [
        "Doctor: 2 faults, 1 unknown, 2 ok",
        "fault    vertex  three: you lack it",
        "fault    vertex  four: you lack it",
        "unknown  vertex  image <1>: not asked",
        "ok       vertex  2 permissions held",
        "",
        "Run:",
        f"  {LONG}",
    ]


@pytest.mark.parametrize("width", [50, 80, 200])
def test_a_command_that_is_copied_from_any_terminal_runs_as_it_is(width):
    lines = shown(width).partition("Run:\n")[2].splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join("\n".join(lines).replace("\\\n", " ").split()) == LONG


def a(finding, subject="it"):
    return Probe(subject=subject, run=lambda: (Check(subject=subject, finding=finding),))


def test_a_fault_leaves_the_later_stages_unasked():
    checks = run_checks("local", [a(Finding.FAULT, "first")], [a(Finding.FAULT, "second")])
    assert [(one.subject, one.finding) for one in checks] == [
        ("first", Finding.FAULT), ("second", Finding.UNKNOWN),
    ]  # fmt: skip
    assert checks.unknowns[0].why == "not checked: fix first first"


@pytest.mark.parametrize(
    ("error", "finding", "why"),
    [
        (AuthError("w", why="expired"), Finding.FAULT, "expired"),
        (ApiDisabledError("w", api="x.googleapis.com"), Finding.UNKNOWN, "x.googleapis.com is switched off"),
        (
            PermissionDeniedError("w", permission="a.b.c"),
            Finding.UNKNOWN,
            "the permission to look, a.b.c, is missing",
        ),
        (TransientError("w", why="503"), Finding.UNKNOWN, "no answer now: 503"),
        (ProviderError("w", why="two\nlines"), Finding.UNKNOWN, "two lines"),
    ],
)
def test_what_a_question_raises_is_a_finding(error, finding, why):
    def ask():
        raise error

    (check,) = run_checks("local", [Probe(subject="it", run=ask)])
    assert check.finding is finding
    assert check.why.endswith(why)
