"""Nothing that a job, a bucket or a service says commands the terminal of whoever looks."""

import contextlib
import functools
import io
import json
import os
import pty
import random
import re
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings, strategies as st

from gputrain.backends.base import LogLine
from gputrain.cli import output
from gputrain.display.live import PlainLines, Terminal, cause, job_status
from gputrain.display.plot import Curve, Plot
from gputrain.display.table import Table
from gputrain.doctor.report import Check, Checks, Finding
from gputrain.errors import FieldError, GputrainError, JobFailedError, SpecError
from gputrain.experiments.comparison import Comparison
from gputrain.google.errors import body_error
from gputrain.job import Job
from gputrain.job.result import ended
from gputrain.jobstore import FolderStore, JobRecord, JobRef, JobStore, Stored
from gputrain.lifecycle import Failure, State
from gputrain.metrics import Metrics
from gputrain.orchestration.look import Context
from tests.each import each

KNOWN = (
    "\x1b]52;c;Y2FuYXJ5\x07", "\x1b]0;title\x07", "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2J",
    "\x1b[1;1Hhome", "\x9b2J", "\x1bc", "\x1b(0", "a\rb", "a\x08b", "\x07", "\x1b[6n",
    "\x1b[5i", "\x1bP$q\x1b\\",
    "\u202etxt.exe", "\u2066a\u2069", "\u2028new",
    "\ud800", "\x1b[31\x1b[2Jm", "\x1b[" + "1;" * 30 + "1J", "\x0e",
    "\x1b[31;1mred\x1b[0m", "\x1b]1337;File=:\x07", "\x00", "\x7f", "\u200b", "\U000e0041",
)  # fmt: skip
INVISIBLE = "\u200b\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
PIECES = st.one_of(
    st.sampled_from(KNOWN), st.characters(), st.sampled_from(["\x1b", "[", "]", "m", ";", "\x9c"])
)
HOSTILE = st.lists(PIECES, max_size=8).map("".join)


def commands(text, *, colour=False):
    """What in a text a terminal would obey, judged letter by letter."""
    rest = COLOUR.sub("", text) if colour else text
    return [
        letter
        for letter in rest
        if (ord(letter) < 32 and letter not in "\n\t") or 0x7F <= ord(letter) < 0xA0
        or letter in INVISIBLE
        or 0xD800 <= ord(letter) < 0xE000 or 0xE0000 <= ord(letter) < 0xE0080
    ]  # fmt: skip


class Screen(io.StringIO):
    """A stream that says of itself that somebody looks."""

    def isatty(self):
        return True


def failure(text):
    return Failure(
        kind="exception", message=text, rank=1, traceback=f"Traceback\n  {text}", last_lines=(text,)
    )


def job_that_ended(ref, text):
    record = JobRecord(job_id=ref.name, spec={}, result="exception", detail=text)
    nothing = dict.fromkeys(("code", "candidates_left", "refresh", "now", "sleep"))
    context = Context(jobs=JobStore(FolderStore("nowhere")), backends={}, **nothing)
    return Job(ref, context, stored=Stored(record=record, version=1, age_s=0.0), named=None)


def shown(text):
    """Every text that is shown to a person and has theirs in it, by where it is."""
    ref = JobRef(project="p", home="my-bucket", name="bert-x1")
    status = job_status(title=text, state=State.RUNNING, elapsed=timedelta(seconds=1), detail=text)
    table = Table(title=text, columns=("a", text), rows=[(text, 1)], caption=text)
    checks = Checks(checks=[Check(subject=text, finding=Finding.FAULT, backend=text, why=text, fix=text)])
    yield "table", str(table)
    yield "table's page", table._repr_html_()
    yield "job's table", str(job_that_ended(ref, text).table)
    yield "error", str(GputrainError(text, why=text, fix=text))
    yield (
        "spec's error",
        str(SpecError(text, faults=(FieldError(field=text, value=text, expected=text, fix=text),))),
    )
    yield "failed job", str(ended(ref, State.FAILED, failure(text), text))
    yield "failed job without a traceback", str(JobFailedError(text, last_lines=(text,)))
    yield "status", status.text
    yield "Google's words", body_error({"error": {"code": 403, "message": text}}).message
    yield "doctor", str(checks)
    yield "doctor's page", checks._repr_mimebundle_()["text/html"]
    yield "cause's page", cause(failure(text))


def pictures(text):
    """The same of experiments and metrics, whose pictures take a while to draw."""
    lines = ("GPUTRAIN_METRIC " + json.dumps({"step": step, text: 1.0 * step}) for step in range(3))
    metrics = Metrics.read(lines)
    yield "metrics", str(metrics)
    yield "metrics' page", metrics._repr_mimebundle_()["text/html"]
    curves = (Curve(label=text, points=((0, 1), (1, 2))),)
    yield "plot", str(Plot(panels={text: curves, f"{text} ": ()}))
    points = Comparison([({text: text, "a": text}, None)])
    points.title = text
    yield "comparison", str(points)
    yield "comparison's page", points._repr_mimebundle_()["text/html"]
    status = points._status()
    yield "experiment's status", status.text
    yield "experiment's cell", status.head() + status.body()


@each("text", KNOWN)
def test_no_text_that_is_shown_commands_a_terminal(text):
    assert {where: found for where, one in shown(text) if (found := commands(one))} == {}


def test_no_text_in_a_picture_commands_a_terminal_or_builds_anything_in_a_page():
    for text in TOGETHER:
        assert escapes(text, pictures) == set()


@settings(max_examples=200)
@given(HOSTILE)
def test_log_lines_keep_their_colour_and_nothing_else(text):
    out = Screen()
    plain = PlainLines(out)
    plain.lines([LogLine(message=text, rank=0)])
    assert commands(out.getvalue(), colour=True) == []
    last = COLOUR.findall(out.getvalue())[-1:]
    assert last in ([], ["\x1b[0m"]), "a colour ends with its line"


MARKUP = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "'><b onclick=x>", "</title><script>",
    "</style><a href=javascript:x>", "]]><x>", "<!--", "-->", "&lt;b&gt;", "&#60;b&#62;", "<svg onload=x>",
    "{{x}}", "${x}", "[red]x[/]", "[link=https://evil.example]x[/link]",
)  # fmt: skip


class Tags(HTMLParser):
    """The tags of a page, and the names of their attributes."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.found = {("br", ())}  # an end of a line is one
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.add((tag, tuple(name for name, _ in attrs)))

    def handle_comment(self, _):
        self.found.add("comment")

    def handle_decl(self, _):
        self.found.add("declaration")


TOGETHER = ["".join([*KNOWN, *MARKUP][first::6]) for first in range(6)]
"""Pieces of every kind in few texts."""


@functools.cache
def plain_tags(show):
    return {where: Tags(one).found for where, one in show("a")}


def escapes(text, show=shown):
    """Where a text is more than text: it commands a terminal, or builds something in a page."""
    pages = ("page", "file", "cell", "report")
    return {
        where
        for where, one in show(text)
        if commands(one) or (where.endswith(pages) and Tags(one).found - plain_tags(show)[where])
    }


@each("text", MARKUP)
def test_no_text_builds_anything_in_a_page(text):
    assert escapes(text) == set()


def strings(count, seed=20261122):
    """Hostile strings, drawn from one seed: commands, markup, quotes and letters of every kind, in pieces."""
    dice = random.Random(seed)
    pieces = [
        *KNOWN,
        *MARKUP,
        *INVISIBLE,
        *"\"'`$\\;|&<>\r\n\t\x1b]",
        "a",
        "loss",
        "é",
        "\U0001f680",
        "\udfff",
        "",
    ]
    for _ in range(count):
        yield "".join(
            dice.choice(pieces) if dice.random() < 0.8 else chr(dice.randrange(0x110000))
            for _ in range(dice.randrange(1, 7))
        )


@pytest.mark.parametrize("count", [300, pytest.param(2000, marks=pytest.mark.soak)])
def test_no_string_escapes_from_any_page_table_error_or_line(count):
    assert {text: found for text in strings(count) if (found := escapes(text) | lines_obeyed(text))} == {}


def lines_obeyed(text):
    """Whether a terminal obeys a log line, or a document for programs says something else."""
    out = Screen()
    PlainLines(out).lines([LogLine(message=text, rank=0)])
    document = io.StringIO()
    with contextlib.redirect_stdout(document):
        output.print_json({text: text}, indent=None)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two halves make one
    is_same = json.loads(document.getvalue()) == {whole: whole} or "\ufffd" in whole
    bad = commands(out.getvalue(), colour=True) or commands(document.getvalue()) or not is_same
    return {"line"} if bad else set()


@each("text", KNOWN)
def test_the_rich_view_on_a_real_terminal_obeys_nothing(text, monkeypatch):
    """What comes out of a pseudo-terminal holds what rich itself says, and nothing of the text's own."""
    quiet, loud = (drawn(one, monkeypatch) for one in ("nothing", text))
    own = set(re.findall(r"\x1b[^a-zA-Z]*[a-zA-Z]|[\x00-\x1f\x7f-\x9f]", COLOUR.sub("", quiet)))
    said = set(re.findall(r"\x1b[^a-zA-Z]*[a-zA-Z]|[\x00-\x1f\x7f-\x9f]", COLOUR.sub("", loud)))
    assert said <= own


def drawn(text, monkeypatch):
    here, there = pty.openpty()
    monkeypatch.setenv("TERM", "xterm-256color")
    with os.fdopen(there, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        shown = Terminal()
        shown.lines([LogLine(message=text, rank=0)])
        state = State.RUNNING
        shown.status(
            job_status(title=text, state=state, elapsed=timedelta(0), metrics=Metrics(), detail=text)
        )
        shown.close()
        monkeypatch.undo()
    data = b""
    with contextlib.suppress(OSError):  # the end of a terminal that nobody writes to any more
        while piece := os.read(here, 1 << 16):
            data += piece
    os.close(here)
    return data.decode("utf-8", "surrogateescape")
