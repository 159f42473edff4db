"""Images bring their own torch: the oldest that people still have, and that of Vertex AI's prebuilt images.

Each is installed by pip, which takes minutes and gigabytes.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TORCH = ("2.0.1", "2.4.1", "2.9.1")


@pytest.fixture(scope="module", params=TORCH)
def python(request, tmp_path_factory):
    """The path of an interpreter with that torch."""
    folder = tmp_path_factory.mktemp("torch")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    path = folder / "bin" / "python"
    install = [path, "-m", "pip", "install", "-q", f"torch=={request.param}", "numpy<2"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no index has torch {request.param} for this Python: {done.stderr.strip()[-300:]}")
    yield path
    subprocess.run(["rm", "-r", folder], check=True)  # gigabytes


def trained(python, script, *words, **variables):
    """The exit code of a node of two ranks, and what it prints."""
    command = [python, "-m", "gputrain.entrypoint", "--nproc-per-node", "2", "--", ROOT / "examples" / script]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run([*command, *words], env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(1800)
def test_a_plain_script_runs_on_older_torch_and_a_session_from_2_4_on(python, tmp_path):
    code, said = trained(python, "train_plain_ddp.py")
    assert code == 0, said
    assert "epoch 2: loss" in said
    directory = {"GPUTRAIN_CHECKPOINT_DIR": str(tmp_path)}
    code, said = trained(python, "train_session.py", "--steps", "40", **directory)
    if "torch 2.4 or newer" in said:
        assert code
        assert "this is 2.0.1" in said
        return
    assert code == 0, said
    code, said = trained(python, "train_session.py", "--steps", "60", **directory)
    assert code == 0, said
    assert "resumed from step 40" in said
    assert "60 steps are done, on 2 rank(s) in the end" in said
    assert "Warning" not in said
