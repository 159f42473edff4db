"""What pip reads for requirements: an environment is used again only where none of it has changed."""

import os

import pytest

from gputrain.runtime.packages import Unmet, inputs, read_file


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_is_read_in_the_encoding_that_pip_finds(tmp_path, encoding):
    file = tmp_path / "requirements.txt"
    file.write_bytes("einops==0.8.0\r\n".encode(encoding))
    assert read_file(str(file)).split() == ["einops==0.8.0"]


@pytest.mark.parametrize(
    "line",
    ["-r base.txt", "-c base.txt", "--requirement=base.txt", "./ours", "-e ./ours", "x @ file://{}/ours"],
)
def test_what_a_file_names_is_part_of_it(tmp_path, monkeypatch, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text(line.format(tmp_path) + "\n-r requirements.txt\n")
    (tmp_path / "ours").mkdir()
    changed = tmp_path / ("base.txt" if "base" in line else "ours/setup.py")
    changed.write_text("einops==0.8.0\n")
    before = inputs(["-r", "requirements.txt"])
    assert before == inputs(["-r", "requirements.txt"])
    changed.write_text("einops==0.7.0 # and more\n")
    os.utime(changed, (1, 1))
    assert inputs(["-r", "requirements.txt"]) != before


def test_the_cause_of_a_failed_build_is_told_with_its_requirement():
    said = """Collecting einops
Processing ./ours
  Getting requirements to build wheel: finished with status 'error'
  error: subprocess-exited-with-error
  [3 lines of output]
    Traceback (most recent call last):
      File "<string>", line 4, in <module>
    OSError: CUDA_HOME is not set
  [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
"""
    assert str(Unmet("pip failed", said)) == "pip failed: ./ours: OSError: CUDA_HOME is not set"
