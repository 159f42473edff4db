"""What a job of this machine requires is installed before its ranks start."""

from importlib import metadata

import pytest

from tests.package_index import index, wheel

__all__ = ["index"]


def test_a_job_gets_what_is_missing_once_and_keeps_what_is_installed(index, jobs, script):
    wheel(index.folder, "not-here", "1.0", ["torch>=2"], script="not-here")
    code = "import not_here, torch, subprocess\nprint(not_here.VERSION, torch.__version__, flush=True)\n"
    code += "subprocess.run(['not-here'], check=True)\n"
    for _ in range(2):
        record = jobs.submit(script=script(code), num_nodes=2, requirements=["not-here", "attrs>=1"])
        ended = jobs.end(record)
        assert ended.result == "succeeded", jobs.text(ended)
        assert jobs.text(ended).count(f"1.0 {metadata.version('torch')}") == 2
        assert jobs.text(ended).count("ran 1.0") == 2
    assert index.brought == ["not_here-1.0-py3-none-any.whl"]
    assert metadata.version("attrs")
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("not-here")


def test_a_job_that_wants_another_torch_is_told_both_versions(index, jobs, script):
    wheel(index.folder, "torch", "1.0")
    ended = jobs.end(jobs.submit(script=script("print('trained')"), requirements=["torch==1.0"]))
    assert ended.result == "requirements"
    assert ended.failure.message.startswith("pip could not install the requirements")
    said = jobs.text(ended)
    assert "torch==1.0" in said
    assert f"torch {metadata.version('torch')}" in said
    assert "trained" not in said
