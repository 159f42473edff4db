"""Log lines of several nodes, merged in the order of time."""

import json
import time

import pytest

from gputrain.backends.local import folder, status as states
from gputrain.runtime.logs import timestamp
from tests.each import each

ATTEMPT = "a1"


def job(path, *nodes):
    path = path / ATTEMPT
    path.mkdir()
    (path / folder.ORDER).write_text(json.dumps({"nodes": [{}] * len(nodes)}))
    for node_rank, lines in enumerate(nodes):
        append(path.parent, node_rank, lines)
    return str(path)


def append(path, node_rank, lines):
    with open(path / ATTEMPT / folder.NODE_LOG.format(node_rank=node_rank), "ab") as file:
        file.write(b"".join(lines))


def line(moment, message="m", rank=0, **more):
    fields = {"severity": "INFO", "message": message, "rank": rank, "time": timestamp(moment), **more}
    return json.dumps(fields).encode() + b"\n"


def read_all(path, is_over=True):
    found, cursor, pages = [], "", 0
    while True:
        page = states.logs(path, is_over=is_over).read(cursor)
        found += page.lines
        pages += 1
        if page.cursor == cursor:
            return found, pages
        cursor = page.cursor


def messages(path, is_over=True):
    return [one.message for one in read_all(path, is_over)[0]]


@each("raw", [b"plain words\n", b"{broken\n", b"[1]\n", b"\xff\xfe\n", b"\n", b"{}\n", b'{"time": 5}\n'])
def test_what_is_no_structured_line_is_a_line_all_the_same(tmp_path, raw):
    path = job(tmp_path, [line(1, "before"), raw, line(3, "after")])
    found = messages(path)
    assert (found[0], found[2], len(found)) == ("before", "after", 3)


def test_a_half_line_waits_for_its_end_while_the_job_runs(tmp_path):
    path = job(tmp_path, [line(1, "whole"), b'{"mess'])
    assert messages(path, is_over=False) == ["whole"]
    append(tmp_path, 0, [b'age": "late"}\n'])
    assert messages(path, is_over=False) == ["whole", "late"]


@pytest.mark.parametrize(("ahead_s", "is_shown"), [(-0.5, True), (0.9, False)])
def test_a_line_of_this_moment_waits_for_lines_that_may_come_before_it(tmp_path, ahead_s, is_shown):
    path = job(tmp_path, [line(time.time() + ahead_s, "now")], [])
    assert messages(path, is_over=False) == ["now"] * is_shown
    assert messages(path) == ["now"]
