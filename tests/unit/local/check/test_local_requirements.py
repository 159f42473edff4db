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
