"""The supervisor as it travels: texts that any Python from 3.9 on can run, with nothing installed."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gputrain.runtime import zipapp
from tests.each import each

PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
OLD_ENOUGH = [path for path in PYTHONS if int(path.parts[-3].split(".")[1]) >= 9]


@pytest.mark.check
@each("python", OLD_ENOUGH or [Path(sys.executable)])
def test_what_a_vm_runs_is_whole(tmp_path, python):
    program = tmp_path / "agent.pyz"
    program.write_bytes(zipapp.build())
    names = [Path(name).stem for name in zipfile.ZipFile(program).namelist() if "/runtime/" in name]
    code = f"import sys; sys.path.insert(0, {str(program)!r})\n"
    code += "".join(f"import gputrain.runtime.{name}\n" for name in names if name != "__init__")
    code += (
        "print(*{name.partition('.')[0] for name in sys.modules} & {'attrs', 'attr', 'google', 'requests'})"
    )
    done = subprocess.run([python, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


@pytest.mark.check
@each("python", OLD_ENOUGH or [Path(sys.executable)])
def test_the_loader_is_one_text_that_says_what_it_cannot_fetch(python):
    order = {"storage": "http://127.0.0.1:1", "bucket": "b", "object": "o", "generation": 1, "sha256": ""}
    quick = zipapp.loader().replace("PAUSES_S = (1, 2, 4, 8, 16, 0)", "PAUSES_S = (0,)")
    words = [python, "-I", "-S", "-c", quick, json.dumps(order)]
    env = {"GCE_METADATA_HOST": "127.0.0.1:1"}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert done.returncode == 1
    assert "cannot fetch the code: cannot call http://127.0.0.1:1/computeMetadata" in done.stderr


def test_the_texts_fit_where_they_go():
    assert len(zipapp.loader()) < 16_000
    assert subprocess.run(["bash", "-n"], input=zipapp.startup(), text=True).returncode == 0
