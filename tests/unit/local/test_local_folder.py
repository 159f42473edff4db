import subprocess
import sys

import pytest

from gputrain.keeper import folder
from tests.unit.local.jobs import until


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
