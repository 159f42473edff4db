"""Two Spot VMs train; one is reclaimed on the way; both come back and end as if nothing had been.

The cloud is the emulator, so this costs nothing; its VMs are processes of this machine that boot the very
startup script that real ones do.
"""

import time
from pathlib import Path

import gputrain_emulator
from gputrain import ComputeEngine, Job, Trainer
from gputrain_emulator.live import LiveMode
from gputrain_emulator.storage import Storage

STEPS = 60
SCRIPT = Path(__file__).with_name("char_transformer.py")


def submit(trainer: Trainer, name: str) -> Job:
    return trainer.submit(
        str(SCRIPT),
        args=["--steps", str(STEPS), "--save-every", "5", "--exact-resume"],
        gpu="L4:2",
        num_nodes=2,
        provisioning_model="spot",
        max_restarts=2,
        max_run_duration="30m",
        name=name,
        env={"TORCH_CPP_LOG_LEVEL": "ERROR"},  # DDP warns of what exact resume asks of it
    )


with gputrain_emulator.start(wall_clock=True) as cloud:
    cloud.attach(LiveMode(cloud.world))
    cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
    times = cloud.compute.settings
    times.provision_s = times.staging_s = times.delete_s = times.stop_s = 0.1
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "poll_s": 0.5}
    trainer = Trainer(ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach))

    straight = submit(trainer, "straight").result(timeout=240)
    whole = dict(straight.metrics.series("loss"))

    job = submit(trainer, "reclaimed")
    for _ in job.logs(rank=0, follow=True, metrics=True):
        if job.metrics().last.get("step", 0) >= STEPS // 6:  # lines come some seconds late
            break
    cloud.preempt(job.machines[1])
    job.wait(timeout=240)
    result = job.result()
    losses = dict(result.metrics.series("loss"))

    apart = max(abs(losses[step] - whole[step]) for step in whole)
    print(f"{job.uri} ended in attempt {result.attempt}; the loss curves are {apart:g} apart")
    assert result.attempt == 1
    assert apart == 0
    patience = time.monotonic() + 60  # each VM deletes itself
    while cloud.compute.vms and time.monotonic() < patience:
        time.sleep(0.2)
    assert not [*cloud.compute.vms, *cloud.compute.resources["disks"]]
