"""A Spot job on two Vertex AI machines is preempted, resumes, and ends as if nothing had been.

The cloud is the emulator, so this costs nothing; its replicas are processes of this machine that see their
bucket under /gcs, where the script saves without knowing it.
"""

from dataclasses import replace
from pathlib import Path

import gputrain_emulator
from gputrain import Job, Trainer, VertexAI
from gputrain_emulator.live import LiveMode
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Vertex

STEPS = 80  # the preemption comes soon after the second, and on a busy machine a few later
SCRIPT = Path(__file__).with_name("char_transformer.py")


def submit(trainer: Trainer, name: str) -> Job:
    return trainer.submit(
        str(SCRIPT),
        args=["--steps", str(STEPS), "--save-every", "2", "--exact-resume"],
        gpu="L4:2",
        num_nodes=2,
        provisioning_model="spot",
        max_restarts=2,
        name=name,
        env={"TORCH_CPP_LOG_LEVEL": "ERROR"},  # DDP warns of what exact resume asks of it
    )


with gputrain_emulator.start(wall_clock=True) as cloud:
    cloud.attach(LiveMode(cloud.world, allow_unconfined=True))
    storage, vertex = cloud.world.part(Storage), cloud.world.part(Vertex)
    storage.add_bucket("my-bucket", location="us-central1")
    vertex.settings = replace(vertex.settings, provision_s=0.2)
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
    trainer = Trainer(VertexAI("my-project", "us-central1", bucket="gs://my-bucket", **reach))

    straight = submit(trainer, "straight").result(timeout=240)
    whole = dict(straight.metrics.series("loss"))

    job = submit(trainer, "preempted")
    marker = f"jobs/{job.id}/checkpoints/step-000000000002/.metadata"
    cloud.clock.wait_for(lambda: marker in [one.name for one in storage.objects.walk("my-bucket")], 120)
    vertex.preempt(list(vertex.jobs)[-1])
    for line in job.logs(rank=0, follow=True):  # while it runs
        print(job.state.value, line.message, sep=" | ")
    result = job.result()
    losses = dict(result.metrics.series("loss"))

    apart = max(abs(losses[step] - whole[step]) for step in whole)
    print(f"{job.uri} ended in attempt {result.attempt}; the loss curves are {apart:g} apart")
    assert result.attempt == 1
    assert apart == 0
