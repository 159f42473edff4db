"""Vertex AI has no quota, zone a is out of stock: the job goes to zone b on Compute Engine, and the ledger
tells why. Then nothing is left at all, and the error tells that.

The cloud is the emulator, whose clock moves only while somebody waits: it costs nothing and takes no time.
"""

from datetime import datetime, timezone

from rich.console import Console

import gputrain_emulator
from gputrain import ComputeEngine, NoPlacementError, Trainer, VertexAI

JOB = {"gpu": ["L4:2", "T4:2"], "max_run_duration": "2h"}
SCRIPT = "examples/train_plain_ddp.py"


def show(*things: object) -> None:
    Console(width=150).print(*things, sep="\n")


with gputrain_emulator.start() as cloud:
    cloud.add_bucket("my-bucket", location="us-central1")
    place = {"project": "my-project", "regions": ["us-central1"], "bucket": "gs://my-bucket"}
    reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials}
    clock = {"sleep": cloud.clock.advance, "now": cloud.clock.now}
    trainer = Trainer(
        [VertexAI(**place, **reach, **clock), ComputeEngine(**place, **reach, **clock)],
        now=lambda: datetime.fromtimestamp(cloud.clock.now(), timezone.utc),
        sleep=cloud.clock.advance,
    )

    for gpu in ("l4", "t4"):
        cloud.quota(f"aiplatform.googleapis.com/custom_model_training_nvidia_{gpu}_gpus", 0)
    cloud.stock("us-central1-a", "g2-standard-24", 0)

    plan = trainer.plan(SCRIPT, **JOB)
    show(plan, plan.explain())
    job = plan.submit()
    show(job.attempts, job.uri)
    assert (job.backend, job.place) == ("compute", "us-central1-b")
    assert [one.outcome.value for one in job.attempts] == ["not tried", "no room", "accepted"]

    for zone in "abcf":
        cloud.stock(f"us-central1-{zone}", "g2-standard-24", 0)
        cloud.stock(f"us-central1-{zone}", "nvidia-tesla-t4", 0)
    try:
        trainer.submit(SCRIPT, **JOB, max_wait_duration="10m")
    except NoPlacementError as error:
        show(str(error))
    assert len(cloud.compute.vms) == 1
