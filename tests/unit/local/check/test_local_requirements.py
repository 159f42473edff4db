"""What a job of this machine requires is installed before its ranks start."""

from importlib import metadata

import pytest

from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from tests.package_index import index, wheel

__all__ = ["index"]


def test_a_job_gets_what_is_missing_once_and_keeps_what_is_installed(index, road, script):
    wheel(index.folder, "not-here", "1.0", ["torch>=2"], script="not-here")
    code = "import not_here, torch, subprocess\nprint(not_here.VERSION, torch.__version__, flush=True)\n"
    code += "subprocess.run(['not-here'], check=True)\n"
    for _ in range(2):
        spec = TrainingSpec(script=script(code), num_nodes=2, requirements=["not-here", "attrs>=1"])
        ref = road.submit(spec)
        seen = road.end(ref)
        assert seen.state is State.SUCCEEDED, road.text(ref)
        assert road.text(ref).count(f"1.0 {metadata.version('torch')}") == 2
        assert road.text(ref).count("ran 1.0") == 2
    assert index.brought == ["not_here-1.0-py3-none-any.whl"]
    assert metadata.version("attrs")
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("not-here")


def test_a_job_that_wants_another_torch_is_told_both_versions(index, road, script):
    wheel(index.folder, "torch", "1.0")
    ref = road.submit(TrainingSpec(script=script("print('trained')"), requirements=["torch==1.0"]))
    seen = road.end(ref)
    assert seen.state is State.FAILED
    assert seen.failure.kind == "requirements"
    assert seen.failure.message.startswith("pip could not install the requirements")
    said = road.text(ref)
    assert "torch==1.0" in said
    assert f"torch {metadata.version('torch')}" in said
    assert "trained" not in said
