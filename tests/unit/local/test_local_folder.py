import os
import subprocess
import sys
import threading

import pytest

from gputrain.keeper import folder
from tests.unit.local.jobs import until


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "state.json"
    folder.write_json(str(path), {"n": 0})
    stop = threading.Event()

    def write():
        for n in range(300):
            folder.write_json(str(path), {"n": n, "fill": "x" * 5000})
        stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not stop.is_set():
        assert folder.read_json(str(path)) is not None
    writer.join()
    assert os.listdir(tmp_path) == ["state.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "\0\0\0", "{}x"])
def test_a_file_without_a_json_object_reads_as_none(tmp_path, text):
    (tmp_path / "a").write_text(text)
    assert folder.read_json(str(tmp_path / "a")) is None


HOLDS = """
import os, sys
from gputrain.keeper import folder
from tests.unit.local.jobs import until
folder.hold(sys.argv[1])
if os.fork():
    os._exit(0)
print("held", flush=True)
sys.stdin.read()
"""


def test_an_attempt_is_held_as_long_as_a_fork_of_its_supervisor_lives(tmp_path):
    assert not folder.is_held(str(tmp_path))
    words = [sys.executable, "-c", HOLDS, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout.readline() == b"held\n"
        assert folder.is_held(str(tmp_path))
        assert folder.is_held(str(tmp_path))
        supervisor.stdin.close()
        until(lambda: not folder.is_held(str(tmp_path)))
