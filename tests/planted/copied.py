"""A copy of the repository without what git ignores, in which tests run with a fault or without."""

import contextlib
import os
import re
import shutil
import subprocess
import sys

import attrs

from tests.planted.plant import ROOT

LIMIT_S = 600
"""For one run of tests; a selection is chosen to take less than a minute."""
_FAILED = re.compile(r"^FAILED (\S+?::\w+)(\[\S*\])?", re.MULTILINE)


@attrs.frozen
class Outcome:
    """How one run of pytest ended."""

    code: int
    output: str

    @property
    def failed(self):
        """The node ids of the tests that failed, each with its parameters and without."""
        found = _FAILED.findall(self.output)
        return frozenset(name + more for name, given in found for more in ("", given))

    def missed(self, plant):
        """The tests named by a plant that did not fail; all of them where tests could not be run."""
        if self.code != 1:  # pytest's code for "tests failed"; 2 to 5: interrupted, crashed, misused, none
            return plant.caught_by
        return tuple(one for one in plant.caught_by if one not in self.failed)


class Copy:
    """The copy, in an empty folder."""

    def __init__(self, folder):
        self.folder = folder
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout
        for name in listed.decode().split("\0"):
            path = ROOT / name
            if path.is_file() and not name.startswith("docs/pictures/"):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, folder / name)

    @contextlib.contextmanager
    def planted(self, plant):
        """Inside, the fault stands in the copy."""
        sound = (self.folder / plant.file).read_text(encoding="utf-8")
        self._write(plant.file, plant.planted(sound))
        try:
            yield
        finally:
            self._write(plant.file, sound)

    def _write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
            compiled.unlink()  # Python goes by seconds and size, and may take the old one for this one

    def test(self, *tests, limit_s=50):
        """Run some tests on the copy, and all that they start; one that takes longer has failed."""
        how = (
            "-q",
            "-rf",
            "--tb=short",
            "-p",
            "no:cacheprovider",
            "-o",
            "addopts=",
            "--timeout",
            str(limit_s),
        )
        ended = self.python("-m", "pytest", *how, *tests)
        return Outcome(ended.returncode, ended.stdout + ended.stderr)

    def python(self, *words):
        """Run Python on the copy, whichever checkout is installed."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        env |= {"PYTHONPATH": f"{self.folder}{os.pathsep}{self.folder / 'emulator'}"}
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.folder, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
