"""Bytes into lines, lines into log entries."""

import json

import pytest
from hypothesis import given, strategies as st

from gputrain.entrypoint.contract import LONGEST_LINE as LIMIT
from gputrain.entrypoint.lines import Lines, Severity, as_json, as_text

NOW = "2026-11-22T12:00:00.000000Z"


def fed(*chunks, step_s=0.0):
    lines = Lines()
    out = [line for number, chunk in enumerate(chunks) for line in lines.feed(chunk, 100 + number * step_s)]
    return out + lines.flush()


@given(
    st.lists(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\r\n")).map(str.encode)),
    st.integers(1, 20),
)
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines, size):
    data = b"".join(line + b"\n" for line in lines)
    chunks = [data[start : start + size] for start in range(0, len(data), size)]
    assert fed(*chunks) == [line if line.strip() else b"" for line in lines]


@given(st.binary(max_size=300), st.integers(1, 40))
def test_no_bytes_make_it_fail(data, size):
    for line in fed(*[data[start : start + size] for start in range(0, len(data), size)]):
        assert b"\n" not in line
        json.loads(as_json(line, 0, "INFO", NOW))


def test_a_last_line_without_an_end_is_not_lost():
    assert fed(b"a\nb") == [b"a", b"b"]


def test_windows_line_ends_are_ends_of_lines():
    assert fed(b"a\r", b"\nb\r\n") == [b"a", b"b"]


def test_a_very_long_line_comes_in_bounded_pieces_and_whole_characters():
    text = ("ä" * LIMIT).encode() + b"x"
    pieces = fed(text + b"\nnext\n")
    assert b"".join(pieces[:-1]) == text
    assert pieces[-1] == b"next"
    assert all(len(piece) <= LIMIT for piece in pieces)
    assert all(piece.decode() for piece in pieces)


def test_a_line_without_end_is_not_kept_whole_in_memory():
    lines = Lines()
    for _ in range(100):
        lines.feed(b"x" * 65536, 0.0)
    assert len(lines.flush()[0]) <= LIMIT


def test_a_progress_bar_shows_now_and_then_and_at_its_end():
    bar = [b"\r%3d%%" % percent for percent in range(100)]
    shown = fed(*bar, b"\r100%\n", step_s=0.1)
    assert shown[-1] == b"100%"
    assert 2 <= len(shown) <= 5


def test_a_progress_bar_that_ends_each_drawing_with_a_return_is_shown_too():
    bar = [b"%3d%%\r" % percent for percent in range(100)]
    shown = fed(*bar, b"done\n", step_s=0.1)
    assert shown[-1] == b"done"
    assert 2 <= len(shown) <= 5


def test_json_lines_keep_their_first_column():
    assert as_text(b"loss 1", 3) == b"[3] loss 1"
    assert as_text(b'{"severity": "INFO"}', 3) == b'{"severity": "INFO"}'


def test_a_line_becomes_one_json_object():
    entry = json.loads(as_json(b"a\xff\x00\xe2\x80\xa8b", 2, "INFO", NOW))
    assert entry["message"] == "a\\xff\x00\u2028b"
    assert (entry["rank"], entry["severity"]) == (2, "INFO")
    assert entry["time"].endswith("Z")


def test_a_structured_line_keeps_its_fields_and_gains_the_rank():
    entry = json.loads(as_json(b'{"message": "m", "severity": "ERROR", "x": [1]}', 2, "INFO", NOW))
    assert entry == {"message": "m", "severity": "ERROR", "x": [1], "rank": 2}


def test_json_without_a_message_is_text():
    assert json.loads(as_json(b'{"loss": 1}', 2, "INFO", NOW))["message"] == '{"loss": 1}'
    assert json.loads(as_json(b'{"loss"', 2, "INFO", NOW))["message"] == '{"loss"'


def test_stderr_warns_and_only_a_traceback_is_an_error():
    severity = Severity(is_stderr=True)
    told = [
        ("10%|#   |", "WARNING"),
        ("Traceback (most recent call last):", "ERROR"),
        ('  File "train.py", line 1, in <module>', "ERROR"),
        ("ValueError: bad", "ERROR"),
        ("more", "WARNING"),
        ("[rank3]: Traceback (most recent call last):", "ERROR"),
        ('[rank3]:   File "train.py", line 1', "ERROR"),
        ("[rank3]: ValueError: bad", "ERROR"),
        ("more", "WARNING"),
    ]
    assert [(line, severity.of(line.encode())) for line, _ in told] == told
    assert Severity(is_stderr=False).of(b"loss 1") == "INFO"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_json_does_not_have_is_passed_on_as_a_text(number):
    line = b'{"message": "x", "loss": %s, "all": [%s]}' % (number.encode(), number.encode())

    def refuse(text):
        raise AssertionError(text)

    entry = json.loads(as_json(line, 0, "INFO", NOW), parse_constant=refuse)
    assert [float(entry["loss"])] == [float(entry["all"][0])] or number == "NaN"
    assert isinstance(entry["loss"], str)
