"""Nothing that a job, a bucket or a service says commands the terminal of whoever looks."""

import contextlib
import io
import json
import os
import pty
import random
import re
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings, strategies as st

from gputrain import view
from gputrain.backends.base import JobRef, LogLine
from gputrain.cli import screen
from gputrain.errors import Fault, GputrainError, JobFailedError, SpecError
from gputrain.experiments.cell import page, rows_of, whole
from gputrain.experiments.comparison import Comparison
from gputrain.experiments.plot import Curve, Plot
from gputrain.gcp.answer import answer_of_json
from gputrain.job.result import ended, told
from gputrain.lifecycle import Failure, Observation, State
from gputrain.metrics import Metrics
from gputrain.preflight.checks import Check, Checks, Finding
from gputrain.tables import Table
from gputrain.view import cause
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


def shown(text):
    """Every text that is shown to a person and has theirs in it, by where it is."""
    ref = JobRef(backend="local", project="p", place="/tmp", name="bert-x1")
    seen = Observation(state=State.FAILED, detail=text, failure=failure(text))
    snapshot = view.Snapshot(title=text, state=State.RUNNING, elapsed=timedelta(seconds=1), detail=text)
    table = Table(title=text, columns=("a", text), rows=[(text, 1)], caption=text)
    checks = Checks(checks=[Check(subject=text, finding=Finding.FAULT, backend=text, why=text, fix=text)])
    yield "table", str(table)
    yield "table's page", table._repr_html_()
    yield "job's table", str(told(ref, State.RUNNING, None, None, text))
    yield "error", str(GputrainError(text, why=text, fix=text))
    yield (
        "spec's error",
        str(SpecError(text, faults=(Fault(field=text, value=text, allowed=text, fix=text),))),
    )
    yield "failed job", str(ended(ref, State.FAILED, seen))
    yield "failed job without a traceback", str(JobFailedError(text, last_lines=(text,)))
    yield "snapshot", snapshot.text
    yield "Google's words", answer_of_json({"error": {"code": 403, "message": text}}).message
    yield "doctor", str(checks)
    yield "doctor's page", checks._repr_mimebundle_()["text/html"]
    yield from pictures(text)


def pictures(text):
    """Experiments and metrics, which a person may also mail as a file."""
    lines = ("GPUTRAIN_METRIC " + json.dumps({"step": step, text: 1.0 * step}) for step in range(3))
    metrics = Metrics.read(lines)
    yield "metrics", str(metrics)
    yield "metrics' page", metrics._repr_mimebundle_()["text/html"]
    for curves in ((), (Curve(label=text, points=((0, 1), (1, 2))),)):
        plot = Plot(title=text, curves=curves)
        yield "plot", str(plot)
        yield "plot's page", plot._repr_html_()
        yield "plot's file", plot.svg(namespace=' xmlns="http://www.w3.org/2000/svg"')
    points = Comparison([({text: text, "a": text}, None)])
    points.title = text
    yield "comparison", str(points)
    yield "comparison's page", points._repr_mimebundle_()["text/html"]
    cell = page(points, rows_of(points))
    yield "experiment's cell", cell.html
    yield "experiment's cell in words", cell.text
    yield "experiment's report", whole(points)
    yield "cause's page", cause(failure(text))


@each("text", KNOWN)
def test_no_text_that_is_shown_commands_a_terminal(text):
    assert {where: found for where, one in shown(text) if (found := commands(one))} == {}


@settings(max_examples=200, deadline=None)
@given(HOSTILE)
def test_no_drawn_text_does_either(text):
    assert {where: found for where, one in shown(text) if (found := commands(one))} == {}


@settings(max_examples=200, deadline=None)
@given(HOSTILE)
def test_log_lines_keep_their_colour_and_nothing_else(text):
    out = Screen()
    plain = view.PlainLines(out)
    plain.lines([LogLine(message=text, rank=0)])
    assert commands(out.getvalue(), colour=True) == []
    last = COLOUR.findall(out.getvalue())[-1:]
    assert last in ([], ["\x1b[0m"]), "a colour ends with its line"


def test_a_line_in_a_pipe_is_what_the_rank_wrote():
    out = io.StringIO()
    view.PlainLines(out).lines([LogLine(message=KNOWN[0], rank=0)])
    assert out.getvalue() == f"[0] {KNOWN[0]}\n"


@settings(max_examples=200, deadline=None)
@given(HOSTILE)
def test_a_document_for_programs_says_the_same_and_commands_nothing(text):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        screen.tell({"message": text, text: 1})
    assert json.loads(out.getvalue()) == {"message": text, text: 1}
    assert commands(out.getvalue()) == []


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


def built(text):
    pages = ("page", "file", "cell", "report")
    return [(where, Tags(one).found) for where, one in shown(text) if where.endswith(pages)]


PLAIN = built("a")


def escapes(text):
    """Where a text is more than text: it commands a terminal, or builds something in a page."""
    found = {where for where, one in shown(text) if commands(one)}
    return found | {where for (where, tags), (_, plain) in zip(built(text), PLAIN) if tags - plain}


@each("text", MARKUP)
def test_no_text_builds_anything_in_a_page(text):
    assert escapes(text) == set()


def test_a_picture_of_any_text_is_a_file_that_can_be_read(tmp_path):
    for text in (*KNOWN, *MARKUP):
        plot = Plot(title=text, curves=(Curve(label=text, points=((0, 1), (1, 2))),))
        plot.save(str(tmp_path / "a.svg"))
        assert ElementTree.parse(tmp_path / "a.svg").getroot().tag.endswith("svg")


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


@pytest.mark.parametrize("count", [50, pytest.param(2000, marks=pytest.mark.soak)])
def test_no_string_escapes_from_any_page_table_error_or_line(count):
    assert {text: found for text in strings(count) if (found := escapes(text) | lines_obeyed(text))} == {}


def lines_obeyed(text):
    """Whether a terminal obeys a log line, or a document for programs says something else."""
    out = Screen()
    view.PlainLines(out).lines([LogLine(message=text, rank=0)])
    document = io.StringIO()
    with contextlib.redirect_stdout(document):
        screen.tell_line({text: text})
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
        shown = view.Terminal()
        shown.lines([LogLine(message=text, rank=0)])
        state = State.RUNNING
        shown.status(
            view.Snapshot(title=text, state=state, elapsed=timedelta(0), metrics=Metrics(), detail=text)
        )
        shown.close()
        monkeypatch.undo()
    data = b""
    with contextlib.suppress(OSError):  # the end of a terminal that nobody writes to any more
        while piece := os.read(here, 1 << 16):
            data += piece
    os.close(here)
    return data.decode("utf-8", "surrogateescape")


def test_there_is_one_way_into_a_page():
    source = Path(view.__file__).parent
    texts = {path.name: path.read_text() for path in source.rglob("*.py")}
    assert [name for name, text in texts.items() if "html.escape" in text] == ["terminal.py"]
