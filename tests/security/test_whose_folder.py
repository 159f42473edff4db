"""What lies in the folder where a command runs is an answer or a refusal: it hangs and breaks nothing."""

import os

import pytest

from gputrain import cli
from tests.each import each


def told(capsys):
    code = cli.main(["jobs"])
    return code, capsys.readouterr().err


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "gputrain.toml"


@each(
    "content",
    [b"\xff\xfe", b"a=" + b"[" * 100_000, b"[" * 100_000, b"\x00", b"project = 1", b'"\\u001b]52;c;aGk=" = 1',
     b"backends = ['../../x']", b"backends = 'os'", b"local = 1", b"[local]\nsleep=1",
     b"[compute]\nendpoints=1",
     b"[local]\ngpus = 1e400", b"a" * 3_000_000],
)  # fmt: skip
def test_any_content_is_read_or_refused(here, capsys, content):
    here.write_bytes(content)
    code, error = told(capsys)
    assert code == 2
    assert error.startswith("error: ")
    assert "\x1b" not in error


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(here, capsys, make):
    make(here)
    code, error = told(capsys)
    assert code == 2
    assert "no plain file" in error or "Is a directory" in error


@pytest.mark.parametrize(("mode", "is_refused"), [(0o1777, True), (0o755, False)])
def test_a_file_that_a_stranger_planted_where_everybody_may_is_not_believed(
    here, capsys, monkeypatch, mode, is_refused
):
    here.write_text('backends = ["local"]\n')
    if os.geteuid() == 0:
        os.chown(here, 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    here.parent.chmod(mode)
    code, error = told(capsys)
    assert (code == 2) is is_refused
    assert ("somebody else put it" in error) is is_refused
