"""The keeper as it travels: texts that any Python from 3.7 on can run, with nothing installed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gputrain.keeper import texts
from tests.each import each

PYTHONS = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
OLD_ENOUGH = [path for path in PYTHONS if int(path.parts[-3].split(".")[1]) >= 7]


@pytest.mark.check
@each("python", OLD_ENOUGH or [Path(sys.executable)])
def test_what_a_vm_gets_is_whole(tmp_path, python):
    for path, text in json.loads(texts.vm()).items():
        full = tmp_path / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
    names = [path.stem for path in (tmp_path / "gputrain" / "keeper").glob("*.py") if path.stem != "__init__"]
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "".join(f"import gputrain.keeper.{name}\n" for name in names)
    code += (
        "print(*{name.partition('.')[0] for name in sys.modules} & {'attrs', 'attr', 'google', 'requests'})"
    )
    done = subprocess.run([python, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


@pytest.mark.check
@each("python", OLD_ENOUGH or [Path(sys.executable)])
def test_the_loader_is_one_text_that_says_what_it_cannot_fetch(python):
    order = {"storage": "http://127.0.0.1:1", "bucket": "b", "object": "o", "generation": 1, "sha256": ""}
    quick = texts.loader().replace("PAUSES_S = (1, 2, 4, 8, 16, 0)", "PAUSES_S = (0,)")
    words = [python, "-I", "-S", "-c", quick, json.dumps(order)]
    env = {"GCE_METADATA_HOST": "127.0.0.1:1"}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert done.returncode == 1
    assert "cannot fetch the code: cannot call http://127.0.0.1:1/computeMetadata" in done.stderr


def test_the_texts_fit_where_they_go():
    assert len(texts.vm()) < 200_000  # a metadata value takes 256 KiB
    assert len(texts.loader()) < 16_000
