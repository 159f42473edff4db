"""The command in a terminal: what it refuses, and how it ends."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from gputrain_emulator.__main__ import main

COMMAND = [sys.executable, "-m", "gputrain_emulator", "--port", "0"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--port 99999", "port must be 0-65535"),
        ("--host 0.0.0.0", "loopback only"),
        ("--userland local/gce-vm:1", "need live mode"),
        ("--allow-unconfined", "need live mode"),
        ("--live --frozen-clock", "live mode cannot have a frozen clock"),
    ],
)
def test_what_cannot_be_had_is_refused_in_a_sentence(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 1
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_or_a_closed_terminal_ends_it_with_its_files(number: signal.Signals, tmp_path: Path) -> None:
    environment = {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        found = re.search(r"at (http\S+);", process.stdout.readline())
        assert found is not None
        try:
            told = requests.post(f"{found[1]}/_emulator/add_bucket", json={"name": "my-bucket"}, timeout=60)
            assert told.ok
            upload = f"{found[1]}/upload/storage/v1/b/my-bucket/o?uploadType=media&name=large"
            assert requests.post(upload, data=bytes(1 << 20), timeout=60).ok
            assert list(tmp_path.iterdir())
            process.send_signal(number)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert not list(tmp_path.iterdir())
