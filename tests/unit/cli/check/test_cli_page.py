"""docs/howto/cli.md prints what it says, and names every key and exit status there is."""

import os
import re
import subprocess
import sys
from pathlib import Path

from gputrain.cli.output import Exit
from gputrain.cli.settings import SHARED

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "howto" / "cli.md").read_text()
MARK = "-- next --"


def steps():
    """The commands of the page's console blocks, each with the output that follows it."""
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.M | re.S):
        for row in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, said = row.partition("\n")
            yield command, said


def block(kind):
    return re.search(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S)[1]


def test_the_page_prints_what_it_says(cloud, folder, monkeypatch):
    (folder / "gputrain.toml").write_text(block("toml"))
    (folder / "train.py").write_text(block("python no-run"))
    program = folder / "bin" / "gputrain"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gputrain "$@"\n')
    program.chmod(0o755)
    cloud.storage.buckets.drop("my-bucket")
    for name in ("BACKENDS", "REGIONS", "BUCKET"):
        monkeypatch.delenv(f"GPUTRAIN_{name}")
    url = cloud.endpoints.url
    listed = list(steps())
    script = "".join(f"{command} 2>&1; echo '{MARK}'\n" for command, _ in listed)
    exports = re.search(r"^export GPUTRAIN_.*$", PAGE, re.M)[0]
    done = subprocess.run(
        ["bash", "-c", f"{exports}\n{script}".replace("http://127.0.0.1:18080", url)],
        env={**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert len(listed) >= 15
    for (command, expected), said in zip(listed, done.stdout.split(f"{MARK}\n"), strict=False):
        pattern = ".*".join(re.escape(piece) for piece in " ".join(expected.split()).split("..."))
        assert re.fullmatch(pattern, " ".join(said.split())), f"{command}\n{said}"


def keys(document):
    """Every key of a document, those in its lists included, except inside readings."""
    found = set(document)
    for key, value in document.items():
        if key != "readings" and isinstance(value, list) and value and isinstance(value[0], dict):
            found |= keys(value[0])
    return found


def told(command):
    row = re.search(rf"^\| `{command}`[^|]*\| (.*) \|$", PAGE, re.M)[1]
    return set(re.findall(r"`([a-z_0-9]+)`", row))


def test_every_key_of_the_documents_is_on_the_page(cloud, read, script):
    script()
    assert keys(read("gpus")[1]) == told("gpus")
    assert keys(read("gpus", "L4")[1]) == told("gpus KIND")
    assert keys(read("gpus", "L4", "--prices")[1]) == told("gpus KIND --prices")
    assert keys(read("quotas", "--gpu", "L4:1")[1]) == told("quotas")
    refused = read("plan", "train.py", "--gpu", "H100:3")[1]
    planned = read("plan", "train.py", "--gpu", "L4:1")[1]
    assert keys(refused) | keys(planned) == told("plan")
    assert keys(read("doctor")[1]) == told("doctor")
    assert keys(read("submit", "train.py", "--gpu", "L4:1", "--detach")[1]) == told("submit")


def test_every_exit_status_is_on_the_page():
    told = {int(number) for number in re.findall(r"^\| (\d+) \|", PAGE, re.M)}
    assert told == {int(status) for status in Exit}


def test_every_setting_is_on_the_page():
    assert set(re.findall(r"`([a-z_]+) = ", PAGE)) == set(SHARED)
