"""A Ctrl-C within a request: whatever it falls between, that request ends and those after it find their way.

Python raises it between any two calls, in the midst of libraries too: within `queue.Queue`, say, it leaves a
lock shut for good, and whoever is to withdraw what was being made waits for ever.
"""

import contextlib
import http.cookiejar
import os
import queue
import sys
import threading

import pytest

from gputrain.gcp import Access, wire
from gputrain.retry import ONCE
from tests.struck import Struck, ends
from tests.unit.gcp.answering import Token, well

LOCKED = {one.__file__ for one in (threading, queue, http.cookiejar)}
"""What takes locks in words of Python, and gives them back so."""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # a finalizer was struck
@pytest.mark.parametrize("every", [99, pytest.param(1, marks=pytest.mark.soak)])
def test_a_ctrl_c_at_any_step_of_a_request_bars_neither_it_nor_a_later_one(serve, every):
    server = serve(well)
    access = Access(project="p", credentials=Token("ours"))

    def ask():
        assert access.get(server.url, action="look", policy=ONCE) == {}

    def ask_struck():
        with contextlib.suppress(KeyboardInterrupt), Struck(step):
            ask()

    for _ in range(2):  # the first one loads what all need
        with Struck() as whole:
            ask()
    files = dict(enumerate(whole.files, 1))
    barred = []
    for step in [one for one, file in files.items() if file in LOCKED or one % every == 0]:
        if not (ends(ask_struck) and ends(ask)):
            barred.append(step)
            access = Access(project="p", credentials=Token("ours"))
    assert len(files) > 500
    assert barred == []


def test_no_answer_is_asked_in_words_of_python_whether_it_is_closed_as_it_goes(serve):
    """What a Ctrl-C raises there Python drops, and tells nobody of."""
    server = serve(well)
    access = Access(project="p", credentials=Token("ours"))
    asked = []

    def note(frame, event, _argument):
        if event == "call" and frame.f_code.co_name in ("closed", "close", "__del__"):
            asked.append((frame.f_code.co_filename, frame.f_back.f_code.co_filename))

    for _ in range(2):
        sys.setprofile(note)
        access.get(server.url, action="look", policy=ONCE)
        sys.setprofile(None)
    ours = os.path.dirname(wire.__file__)
    assert [one for one, by in asked if os.path.dirname(by) == ours and "urllib3" in one] == []
    assert len(asked) > 2
