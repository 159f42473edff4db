"""What of a folder may not be read, or goes while it is looked at, is named in an error with a fix."""

import encodings.latin_1  # noqa: F401  # what is imported late; nobody may read this Python
import multiprocessing
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from gputrain.code.bundle import pack
from gputrain.code.entry import examine
from gputrain.spec import TrainingSpec


@pytest.fixture
def folder():
    """A folder that everybody may read, with a script; pytest's own are for one user."""
    made = Path(tempfile.mkdtemp(prefix="gputrain-test-", dir="/var/tmp"))  # whose parents are open to all
    made.chmod(0o755)
    (made / "train.py").write_text("print()\n")
    yield made
    shutil.rmtree(made)


def _told(call, answers):
    if os.geteuid() == 0:  # who may read everything
        os.setgroups([])
        os.setuid(65534)
    try:
        answers.send(("", str(getattr(call(), "faults", ""))))
    except Exception as error:  # noqa: BLE001  # told to whoever asked
        answers.send((type(error).__name__, str(error)))


def told(call):
    """What a call raises for a user who is not root: its kind, and its words or the faults found."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_told, args=(call, there))
    process.start()
    there.close()
    try:
        assert here.poll(60), "nothing was told"
        return here.recv()
    finally:
        process.join(60)
        process.kill()  # of what has ended, nothing


@pytest.mark.parametrize("name", ["pgdata/", "secret.txt", ".gitignore", ".gputrainignore", "train.py"])
def test_what_may_not_be_read_is_named(folder, name):
    sealed = folder / name
    sealed.mkdir() if name.endswith("/") else sealed.write_text("print()\n")
    sealed.chmod(0)
    spec = TrainingSpec(script=folder / "train.py")
    for call, kind in ((lambda: pack(str(folder)), "SpecError"), (lambda: examine(spec, is_sent=True), "")):
        raised, words = told(call)
        assert raised == kind, words
        assert f"{sealed.name} cannot be read (Permission denied)" in words
        assert f"make it readable, or list {sealed.name} in .gputrainignore" in words
