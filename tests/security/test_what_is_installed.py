"""What the two commands install is what was looked at, file by file, and nothing else without a word."""

import re
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

try:
    import tomllib
except ModuleNotFoundError:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;]+)(?: ; (?P<marker>[^\\]+))?", re.MULTILINE)
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def project(folder=""):
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]


def locked(file, python):
    """Name to version of all that a lock holds for a Python on Linux."""
    here = {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": "linux"}
    found = ENTRY.finditer((ROOT / "locks" / file).read_text())
    return {
        canonicalize_name(one["name"]): one["version"]
        for one in found
        if not one["marker"] or Marker(one["marker"].strip()).evaluate(here)
    }


@pytest.mark.parametrize("file", ["test.txt", "torch.txt", "torch-cpu.txt", "cuda.txt"])
def test_every_release_in_a_lock_has_a_hash_and_one_version(file):
    text = (ROOT / "locks" / file).read_text()
    entries = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    assert entries
    for entry in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry
        assert ENTRY.match(entry), entry


@pytest.mark.parametrize("python", PYTHONS)
def test_all_that_we_ask_for_is_locked_for_every_python_in_a_version_that_we_take(python):
    theirs = {**locked("test.txt", python), **locked("torch.txt", python)}
    ours, emulator = project(), project("emulator")
    wanted = [*ours["dependencies"], *emulator["dependencies"], *emulator["optional-dependencies"]["test"]]
    wanted += [*ours["optional-dependencies"]["test"], *ours["optional-dependencies"]["torch"]]
    for one in map(Requirement, wanted):
        needed = not one.marker or one.marker.evaluate({"python_version": python})
        if needed and one.name != "gputrain-emulator":
            assert one.specifier.contains(theirs[canonicalize_name(one.name)]), one


def test_what_a_forge_runs_is_named_by_its_commit():
    text = "".join(path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    used = re.findall(r"uses: (\S+)", text)
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one) for one in used)
    assert "HASHES: required" in text
