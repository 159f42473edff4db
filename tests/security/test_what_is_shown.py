"""Nothing that a job, a bucket or a service says commands the terminal of whoever looks."""

import contextlib
import io
import json
import os
import pty
import re
from datetime import timedelta

import pytest
from hypothesis import given, settings, strategies as st

from gputrain import view
from gputrain.backends.base import JobRef, LogLine
from gputrain.cli import screen
from gputrain.errors import Fault, GputrainError, JobFailedError, SpecError
from gputrain.gcp.answer import answer_of_json
from gputrain.job.result import ended, told
from gputrain.lifecycle import Failure, Observation, State
from gputrain.metrics import Metrics
from gputrain.preflight.checks import Check, Checks, Finding
from gputrain.tables import Table

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


@pytest.mark.parametrize("text", KNOWN)
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


@pytest.mark.parametrize("text", KNOWN)
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
