"""A launcher within a command leaves nodes apart, and a plan says so."""

from gputrain import TrainingSpec
from gputrain.spec.entry import launcher_warning
from tests.each import each


@each(
    ("command", "told"),
    [
        (["torchrun", "--standalone", "--nproc_per_node=2", "dist.py"], "script='dist.py', nproc_per_node=2"),
        (["python3", "-m", "torch.distributed.run", "--nproc-per-node", "4", "a/b.py"], "nproc_per_node=4"),
        (
            ["bash", "-lc", "cd x && torchrun --nproc_per_node 8 t.py 2>&1 | tee log"],
            "script='t.py', nproc_per_node=8",
        ),
        (["/usr/bin/accelerate", "launch", "--num_processes=2", "t.py"], "accelerate in the command"),
        (["deepspeed", "--num_gpus=2", "t.py"], "nproc_per_node=2"),
    ],
)
def test_a_launcher_on_several_nodes_is_warned_of_with_what_to_write(command, told):
    assert told in launcher_warning(TrainingSpec(command=command, num_nodes=2))
    assert not launcher_warning(TrainingSpec(command=command)), "one node is what it knows"


@each(
    "command",
    [
        ["torchrun", "--nnodes=2", "t.py"],
        ["bash", "-c", "accelerate launch --num_machines $GPUTRAIN_NUM_NODES t.py"],
        ["python3", "t.py", "--note", "it's"],
        ["bash", "-c", "echo 'torchrun-like"],
    ],
)
def test_a_command_that_knows_its_nodes_is_not_warned_of(command):
    assert not launcher_warning(TrainingSpec(command=command, num_nodes=2))
