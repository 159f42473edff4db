"""The ranks of a job on this machine meet at its own address, and nobody reaches their store at another."""

import textwrap

import pytest

from gputrain import Local, Trainer

RANK = """
    import os, socket, time
    import torch.distributed as dist

    RANK, ADDR = int(os.environ["RANK"]), os.environ["MASTER_ADDR"]

    def listeners():
        lines = [line for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").readlines()[1:]]
        here = [line.split() for line in lines]
        wanted = f":{int(os.environ['MASTER_PORT']):04X}"
        return [line[1] for line in here if line[1].endswith(wanted) and line[3] == "0A"]

    for turn in range(2):
        dist.init_process_group("gloo", **OPTIONS)
        words = [None, None]
        dist.all_gather_object(words, dist.get_rank())
        assert words == [0, 1]
        packed = "".join(f"{byte:02X}" for byte in reversed(socket.inet_aton(ADDR)))
        found = listeners()
        dist.barrier()
        assert [one.split(":")[0] for one in found] == [packed], found
        dist.destroy_process_group()
        gone = f"{FOLDER}/gone-{turn}"  # whoever is quicker would meet at the store that is about to go
        if RANK == 0:
            open(gone, "w").close()
        while not os.path.exists(gone):
            time.sleep(0.01)
    print("met", os.environ["MASTER_ADDR"])
"""


@pytest.mark.parametrize(
    "options",
    ["", "init_method='tcp://' + ADDR + ':' + os.environ['MASTER_PORT'], rank=RANK, world_size=2"],
    ids=["env", "tcp"],
)  # fmt: skip
def test_torchs_store_listens_at_the_jobs_own_address_alone(tmp_path, options):
    script = tmp_path / "train.py"
    text = textwrap.dedent(RANK).replace("**OPTIONS", options).replace("{FOLDER}", str(tmp_path))
    script.write_text(text)
    Trainer(Local(root=tmp_path / "jobs")).run(script, nproc_per_node=2, max_run_duration="5m")
