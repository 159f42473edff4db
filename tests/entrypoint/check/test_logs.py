"""What ranks write, through a real agent: nothing lost, nothing hung, one object a line."""

import fcntl
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from gputrain.runtime.contract import LONGEST_LINE as LIMIT
from gputrain.runtime.logs import Lines, Severity, as_json, as_text
from tests.each import each
from tests.entrypoint.nodes import ROOT

MANY = 20_000
F_SETPIPE_SZ = 1031


def entries(node):
    return [json.loads(line) for line in node.lines if line.startswith("{")]


def test_every_line_of_every_rank_is_one_json_object(cluster):
    script = cluster.script("""
        import sys
        print("out")
        print("err", file=sys.stderr)
        sys.stdout.buffer.write(b"bytes \\xff\\n")
        print('{"message": "mine", "severity": "NOTICE"}')
        print("two\\nlines")
    """)
    node = cluster.run(script, flags=["--log-format=json"])
    assert len(node.lines) == 2 * 6 + 1
    told = [(entry["severity"], entry["message"]) for entry in entries(node) if entry["rank"] == 1]
    assert sorted(told) == [
        ("INFO", "bytes \\xff"), ("INFO", "lines"), ("INFO", "out"), ("INFO", "two"),
        ("NOTICE", "mine"), ("WARNING", "err"),
    ]  # fmt: skip


def test_each_rank_has_a_plain_log_of_its_own(cluster):
    logs = cluster.folder / "logs" / "deep"
    script = cluster.script("import os\nprint('rank', os.environ['RANK'])")
    cluster.run(script, nodes=2, flags=["--log-dir", logs, "--log-format=json"])
    assert [(logs / f"rank-{rank}.log").read_text() for rank in range(4)] == [
        f"rank {rank}\n" for rank in range(4)
    ]


def test_a_child_that_holds_the_streams_open_does_not_hold_the_end(cluster):
    script = cluster.script("""
        import subprocess
        subprocess.Popen(["sleep", "600"])
        print("finished", end="")
    """)
    node = cluster.start(script, nproc=1).wait(10)
    assert node.code == 0
    assert node.said("[0] finished")


def start_piped(cluster, script, *flags):
    command = [sys.executable, "-m", "gputrain.entrypoint", "--nproc-per-node=2", *flags, "--", script]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=env, cwd=cluster.folder, stdout=subprocess.PIPE)


def test_a_slow_reader_loses_no_line_and_holds_the_ranks_back(cluster):
    script = cluster.script(f"""
        import os
        for number in range({MANY}):
            print(os.environ["RANK"], number)
        open("written-" + os.environ["RANK"], "w").close()
    """)
    with start_piped(cluster, script) as agent:
        fcntl.fcntl(agent.stdout, F_SETPIPE_SZ, 4096)
        first = agent.stdout.readline()
        # Between rank and reader lie two pipes and one buffer, far smaller than what the rank has to say.
        assert not list(cluster.folder.glob("written-*"))
        lines = [first, *agent.stdout]
    assert agent.returncode == 0
    for rank in (b"0", b"1"):
        numbers = [int(line.split()[2]) for line in lines if line.startswith(b"[%s] " % rank)]
        assert numbers == list(range(MANY))
    assert lines[-1].startswith(b"GPUTRAIN_RESULT ")


def test_a_reader_that_goes_away_does_not_end_the_run(cluster):
    script = cluster.script("""
        import time
        for _ in range(2000):
            print("x" * 100)
    """)
    with start_piped(cluster, script, "--result-dir", str(cluster.folder)) as agent:
        agent.stdout.readline()
        agent.stdout.close()
    assert agent.returncode == 0
    assert json.loads((cluster.folder / "result-0.json").read_text())["state"] == "done"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_buffered_output_of_a_failing_rank_is_not_lost(cluster, log_format):
    script = cluster.script("""
        import sys
        sys.stdout.write("the last words")
        raise ValueError
    """)
    node = cluster.run(script, nproc=1, flags=["--log-format", log_format], env={"PYTHONUNBUFFERED": ""})
    assert node.said("the last words"), node.out


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
    assert fed(*chunks) == lines


@given(st.binary(max_size=300), st.integers(1, 40))
def test_no_bytes_make_it_fail(data, size):
    for line in fed(*[data[start : start + size] for start in range(0, len(data), size)]):
        assert b"\n" not in line
        json.loads(as_json(line, 0, "INFO", NOW))


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


@each(
    ("chunks", "lines"),
    [((b"a\nb",), [b"a", b"b"]), ((b"a\r", b"\nb\r\n"), [b"a", b"b"]), ((b"x\ry\rz\n",), [b"z"])],
)
def test_a_last_line_without_an_end_is_not_lost_and_one_drawn_anew_is_shown_as_drawn_last(chunks, lines):
    assert fed(*chunks) == lines


@each(("drawing", "end"), [(b"\r%3d%%", b"\r100%\n"), (b"%3d%%\r", b"100%\n")])
def test_a_progress_bar_shows_now_and_then_and_at_its_end(drawing, end):
    shown = fed(*[drawing % percent for percent in range(100)], end, step_s=0.1)
    assert shown[-1] == b"100%"
    assert 2 <= len(shown) <= 5


@each(
    ("line", "text", "entry"),
    [
        (b"loss 1", b"[2] loss 1", {"message": "loss 1", "severity": "INFO"}),
        (b"a\xff\x00\xe2\x80\xa8b", None, {"message": "a\\xff\x00\u2028b", "severity": "INFO"}),
        (b'{"message": "m", "severity": "ERROR"}', b"", {"message": "m", "severity": "ERROR"}),
        (b'{"loss": 1}', b"", {"message": '{"loss": 1}', "severity": "INFO"}),
        (b'{"loss"', b"", {"message": '{"loss"', "severity": "INFO"}),
        (b'{"message": "x", "all": [NaN, 1]}', b"", {"message": "x", "all": ["NaN", 1]}),
    ],
)
def test_a_line_gains_its_rank_in_front_or_as_a_field_of_one_json_object(line, text, entry):
    assert as_text(line, 2) == (line if text == b"" else text or b"[2] " + line)
    found = json.loads(as_json(line, 2, "INFO", NOW))
    assert found.pop("time", NOW) == NOW
    assert found == {**entry, "rank": 2}
