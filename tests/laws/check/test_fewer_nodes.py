"""A gang of two real VMs loses one for good and goes on with the other, from its checkpoint, and says so.

The cloud is the emulator in live mode: each VM boots the real startup script, and its rank trains with torch.
"""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from gputrain import ComputeEngine, Trainer
from gputrain.lifecycle import State
from tests.contract.clouds import live_cloud
from tests.patience import until

SCRIPT = Path(__file__).parents[1] / "preempted_training.py"
MACHINE = "g2-standard-4"
STEPS, SAVE_EVERY = 120, 5


@pytest.fixture
def cloud():
    with live_cloud() as running:
        running.compute.settings.quotas = False
        yield running


def trainer_in(cloud):
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "poll_s": 0.3}
    return Trainer(ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach))


def losses_of(job):
    """Loss by step, and the steps as they were reported, all attempts."""
    words = [line.message.partition("GPUTRAIN_METRIC ") for line in job.logs(rank=0, metrics=True)]
    reports = [json.loads(text) for head, marker, text in words if marker and not head]
    return {one["step"]: one["loss"] for one in reports}, [one["step"] for one in reports]


@pytest.mark.timeout(420)
def test_a_gang_that_loses_a_node_for_good_goes_on_with_fewer_from_its_checkpoint(cloud, tmp_path):
    step = "        schedule.step()\n"
    script = tmp_path / "train.py"
    script.write_text(SCRIPT.read_text().replace(step, step + "        __import__('time').sleep(0.4)\n"))
    job = trainer_in(cloud).submit(
        str(script), args=[str(STEPS), str(SAVE_EVERY), "--spread"], gpu="L4:1", machine_type=MACHINE,
        num_nodes=2, min_nodes=1, max_restarts=2, provisioning_model="spot", max_run_duration="30m",
        env={"TORCH_CPP_LOG_LEVEL": "ERROR"},
    )  # fmt: skip
    whole = job.candidate
    assert whole.num_nodes == 2
    seen = []
    for line in job.logs(follow=True, metrics=True):
        seen.append(line.message)
        if job.metrics().last.get("step", 0) >= STEPS // 4:
            break
    assert not job.state.is_terminal, "\n".join(seen)[-4000:]
    for zone in ("us-central1-a", "us-central1-b", "us-central1-c"):
        cloud.stock(zone, MACHINE, 0)
    cloud.preempt(job.machines[1])  # the place of the other is free once it has been deleted

    shrunk = trainer_in(cloud).attach(job.uri)  # another process, which shrinks the gang
    result = shrunk.result()

    assert (result.state, result.attempt) == (State.SUCCEEDED, 1)
    assert shrunk.candidate.num_nodes == 1
    assert [one.candidate.num_nodes for one in shrunk.attempts][-1] == 1, shrunk.attempts
    losses, told = losses_of(shrunk)
    assert sorted(losses) == list(range(1, STEPS + 1))
    assert len(told) - len(losses) <= SAVE_EVERY  # what was lost, and made again
    (said,) = [line.message for line in shrunk.logs(rank=0, grep="resumed") if "step" in line.message]
    assert int(re.search(r"step (\d+)", said)[1]) >= STEPS // 4 - SAVE_EVERY, said

    job.refresh()  # a handle that looked away meanwhile
    assert job.state is State.SUCCEEDED
    assert job.candidate.num_nodes == 1
    assert job.candidate.price_usd_h == pytest.approx(whole.price_usd_h / 2)
    assert job.cost_usd == pytest.approx(shrunk.cost_usd)
    until(lambda: not cloud.compute.vms)
