"""A question should cost little more than importing the package."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import gputrain

PACKAGE = Path(gputrain.__file__).parent


def loaded_by(code):
    program = f"{code}\nimport sys; print(*sys.modules)"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.parametrize(
    "question", ["find('H100')", "shapes('H100', 2)", "price('g2-standard-4', 'us-central1')"]
)
def test_a_question_loads_nothing_slow(question):
    loaded = loaded_by(f"from gputrain import catalog; catalog.{question}")
    slow = {
        "json",
        "csv",
        "datetime",
        "rich",
        "pathlib",
        "tenacity",
    }
    assert not slow & set(loaded)


def test_importing_the_package_does_not_load_the_catalog():
    assert "gputrain.catalog" not in loaded_by("import gputrain")


def test_the_tables_are_read_from_inside_a_zip_file(tmp_path):
    archive = tmp_path / "package.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in PACKAGE.rglob("*"):
            if path.suffix in (".py", ".tsv") and "emulator" not in path.parts:
                zipped.write(path, path.relative_to(PACKAGE.parent))
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r}); import gputrain; "
        "assert '.zip' in gputrain.__file__; from gputrain import catalog; "
        "print(catalog.price('g2-standard-24', 'us-central1'))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert result.stdout.strip() == "$2.00/h (2026-07-30)"
