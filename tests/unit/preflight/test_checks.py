"""The report as a value, and how it is shown; questions side by side and in stages."""

import io
import threading

import pytest
from rich.console import Console

from gputrain.errors import ApiDisabledError, AuthError, PermissionDeniedError, ProviderError, TransientError
from gputrain.preflight import Check, Checks, Finding, Question, examine

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


def test_faults_come_first_and_what_is_well_last():
    assert [check.finding for check in REPORT] == [Finding.FAULT] * 2 + [Finding.UNKNOWN] + [Finding.OK] * 2
    assert REPORT.summary == "2 faults, 1 unknown, 2 ok"
    assert (REPORT.is_ok, len(REPORT)) == (False, 5)


def test_what_is_well_in_one_group_shares_a_row():
    assert str(REPORT).splitlines() == [
        "Preflight: 2 faults, 1 unknown, 2 ok",
        "finding  backend  what                what was seen",
        "-------  -------  ------------------  -------------",
        "fault    vertex   three               you lack it",
        "fault    vertex   four                you lack it",
        "unknown  vertex   image <1>           not asked",
        "ok       vertex   2 permissions held",
        "",
        "What mends it:",
        f"  {LONG}",
    ]


@pytest.mark.parametrize("width", [50, 80, 200])
def test_a_command_that_is_copied_from_any_terminal_runs_as_it_is(width):
    lines = shown(width).partition("What mends it:\n")[2].splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join("\n".join(lines).replace("\\\n", " ").split()) == LONG


def test_a_dumb_terminal_gets_no_colours():
    assert "\x1b" not in shown(80, force_terminal=True, _environ={"TERM": "dumb"})


def test_a_notebook_gets_escaped_html_and_the_text():
    bundle = REPORT._repr_mimebundle_()
    assert "image &lt;1&gt;" in bundle["text/html"]
    assert f"<pre>{LONG}</pre>" in bundle["text/html"]
    assert bundle["text/plain"] == str(REPORT)


def test_nothing_to_look_at_is_well():
    assert Checks(checks=()).is_ok


def a(finding, subject="it"):
    return Question(subject=subject, ask=lambda: (Check(subject=subject, finding=finding),))


def test_questions_are_asked_side_by_side():
    together = threading.Barrier(8, timeout=30)

    def ask():
        together.wait()
        return (Check(subject="it", finding=Finding.OK),)

    assert examine("local", [Question(subject="it", ask=ask)] * 8).is_ok


def test_a_fault_leaves_the_later_stages_unasked():
    checks = examine("local", [a(Finding.FAULT, "first")], [a(Finding.FAULT, "second")])
    assert [(one.subject, one.finding) for one in checks] == [
        ("first", Finding.FAULT), ("second", Finding.UNKNOWN),
    ]  # fmt: skip
    assert checks.unknowns[0].why == "not looked at: mend first first"


def test_an_unknown_stops_nothing():
    checks = examine("local", [a(Finding.UNKNOWN)], [a(Finding.OK)])
    assert {one.finding for one in checks} == {Finding.UNKNOWN, Finding.OK}


@pytest.mark.parametrize(
    ("error", "finding", "why"),
    [
        (AuthError("w", why="expired"), Finding.FAULT, "expired"),
        (ApiDisabledError("w", api="x.googleapis.com"), Finding.UNKNOWN, "x.googleapis.com is switched off"),
        (
            PermissionDeniedError("w", permission="a.b.c"),
            Finding.UNKNOWN,
            "you may not look: a.b.c is missing",
        ),
        (TransientError("w", why="503"), Finding.UNKNOWN, "no answer now: 503"),
        (ProviderError("w", why="two\nlines"), Finding.UNKNOWN, "two lines"),
    ],
)
def test_what_a_question_raises_is_a_finding(error, finding, why):
    def ask():
        raise error

    (check,) = examine("local", [Question(subject="it", ask=ask)])
    assert check.finding is finding
    assert check.why.endswith(why)
