"""The tables are part of the package, and its import does not read them."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import gputrain

PACKAGE = Path(gputrain.__file__).parent


@pytest.mark.check
def test_the_tables_are_read_from_inside_a_zip_file(tmp_path):
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in PACKAGE.rglob("*"):
            if path.suffix in (".py", ".csv", ".toml") and "emulator" not in path.relative_to(PACKAGE).parts:
                zipped.write(path, path.relative_to(PACKAGE.parent))
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); import gputrain; "
        "assert '.zip' in gputrain.__file__; from gputrain import catalog as c; "
        "print(c.price('g2-standard-24', 'us-central1'), len(c.fabrics(c.shapes('B200')[0])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip() == "$2.00/h (2026-07-30) 2"
