"""What a VM shows on its serial port, through Google's runner, which stops reading at a line of 64 KiB."""

import contextlib
import json
import os
import subprocess
import sys
import time

import pytest

from gputrain.keeper.journal import LONGEST, WAITING, Serial, short

RUNNER = """
import sys
longest = 0
for line in iter(lambda: sys.stdin.buffer.readline(65537), b""):
    if len(line) > 65536:
        sys.exit("token too long")
    longest = max(longest, len(line))
print(longest)
"""


@pytest.fixture
def port():
    reader, writer = os.pipe()
    yield Serial(writer), reader, writer
    for fd in (reader, writer):
        with contextlib.suppress(OSError):
            os.close(fd)


def test_a_line_of_a_megabyte_does_not_stop_googles_runner(port):
    serial, reader, writer = port
    with subprocess.Popen([sys.executable, "-c", RUNNER], stdin=reader, stdout=subprocess.PIPE) as runner:
        serial.show(b"x" * 1_000_000, 1_000_000)
        serial.show(json.dumps({"message": "\ud800" * 900_000, "rank": 0}).encode(), 2_000_000)
        serial.flush()
        time.sleep(0.1)
        os.close(writer)
        assert 0 < int(runner.stdout.read()) < 65536
    assert runner.returncode == 0


def test_a_runner_that_is_gone_ends_the_showing_alone(port):
    serial, reader, _ = port
    os.close(reader)
    for number in range(10):
        serial.show(b"line", number)
    serial.flush()
    assert serial.is_broken


def test_a_port_that_takes_nothing_holds_nobody_up_and_the_newest_lines_wait(port):
    serial, reader, _ = port
    began = time.monotonic()
    for number in range(100_000):
        serial.show(b"x" * 100, number)
    assert time.monotonic() - began < 10
    assert len(serial._lines) <= WAITING
    seen = b""
    while b"gputrain:99999:" not in seen:
        seen += os.read(reader, 1 << 20)
    assert seen.startswith(b"gputrain:0:")


def test_a_short_object_is_still_an_object():
    line = json.dumps({"message": "ä" * 60_000, "rank": 3, "severity": "ERROR"}).encode()
    told = short(line)
    assert len(told) <= LONGEST + 100
    assert json.loads(told)["rank"] == 3
    assert json.loads(told)["message"].endswith("the whole line is in the log")


ODD = [b"{" + b"[" * 50_000, b'{"message": ' + b"9" * 50_000, b'{"a": "' + b"x" * 50_000 + b'"}']


@pytest.mark.parametrize("line", [*ODD, b"\xff" * 50_000])
def test_anything_is_cut(line):
    assert len(short(line)) <= LONGEST + 100
