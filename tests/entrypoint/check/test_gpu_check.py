"""A torch that sees none of the machine's GPUs does not train on the CPU. Here it is a stand-in."""

import pytest

TORCH = """
class version: cuda = "13.0"
class _C: _cuda_getDriverVersion = lambda: 12020
class cuda: is_available = lambda: {sees}
__version__ = "2.12.1"
"""
USES_IT = """
import mmap, time
with open("libtorch.so", "w+b") as file:
    file.truncate(4096)
    library = mmap.mmap(file.fileno(), 4096)
time.sleep({seconds})
"""


@pytest.mark.parametrize("sees", [False, True])
def test_a_torch_too_new_for_the_driver_ends_the_job_with_both_versions(cluster, sees):
    cluster.script(TORCH.format(sees=sees), name="torch.py")
    script = cluster.script(USES_IT.format(seconds=2 if sees else 600))
    node = cluster.run(script, env={"CUDA_VISIBLE_DEVICES": "0,1"})
    if sees:
        assert node.code == 0, node.out
        return
    assert (node.code, node.cause["kind"]) == (64, "environment"), node.out
    assert "torch 2.12.1 of CUDA 13.0 sees none of the 2 GPUs, whose driver runs CUDA 12.2" in node.out
