"""What of a folder may not be read, or goes while it is looked at, is named in an error with a fix."""

import encodings.latin_1  # noqa: F401  # what is imported late; nobody may read this Python
import multiprocessing
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from gputrain.code.bundle import pack, survey
from gputrain.code.entry import examine, resolve
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


CALLS = {
    "survey": lambda folder: survey(str(folder)),
    "pack": lambda folder: pack(str(folder)),
    "resolve": lambda folder: resolve(TrainingSpec(script=folder / "train.py"), installed=False),
    "examine": lambda folder: examine(TrainingSpec(script=folder / "train.py"), is_sent=True),
    "examine here": lambda folder: examine(TrainingSpec(script=folder / "train.py"), is_sent=False),
}
SEALED = {
    "pgdata/base": ("survey", "pack", "examine"),
    "secret.txt": ("pack", "examine"),
    ".gitignore": ("survey", "pack", "examine"),
    ".gputrainignore": ("survey", "pack", "examine"),
    "train.py": ("pack", "resolve", "examine", "examine here"),
}


@pytest.mark.parametrize(("name", "call"), [(name, call) for name in SEALED for call in SEALED[name]])
def test_what_may_not_be_read_is_named(folder, name, call):
    sealed = folder / name.partition("/")[0]
    if "/" in name:
        sealed.mkdir()
    else:
        sealed.write_text("print()\n")
    sealed.chmod(0)
    kind, words = told(lambda: CALLS[call](folder))
    assert kind == ("" if call.startswith("examine") else "SpecError"), words
    assert f"{sealed.name} cannot be read (Permission denied)" in words
    assert f"make it readable, or list {sealed.name} in .gputrainignore" in words
