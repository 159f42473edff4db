"""An unchanged DDP script on two Vertex AI machines, tried on an emulated cloud: nothing leaves this machine.

With ``VertexAI(project=..., region=..., bucket=...)`` alone, the same lines run it on Google Cloud.
"""

from dataclasses import replace
from pathlib import Path

import gputrain_emulator
from gputrain import JobFailedError, Trainer, VertexAI
from gputrain_emulator.live import LiveMode
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Vertex

HERE = Path(__file__).parent


def small_cloud() -> gputrain_emulator.Cloud:
    """A cloud with a bucket, whose machines are processes of this computer and come within a second."""
    cloud = gputrain_emulator.start(wall_clock=True)
    cloud.attach(LiveMode(cloud.world, allow_unconfined=True))
    cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
    vertex = cloud.world.part(Vertex)
    vertex.settings = replace(vertex.settings, provision_s=0.5)
    return cloud


def main() -> None:
    with small_cloud() as cloud:
        backend = VertexAI(
            project=cloud.project,
            region="us-central1",
            bucket="gs://my-bucket",
            endpoints=cloud.endpoints,
            credentials=cloud.credentials,
        )
        trainer = Trainer(backend)

        plan = trainer.plan(str(HERE / "train_plain_ddp.py"), gpu="L4:2", num_nodes=2, max_run_duration="1h")
        print(plan, "\n")
        job = plan.submit()
        job.wait(progress="plain")
        print(f"\n{job.uri} has {job.result().state.value}\n")

        job = trainer.submit(str(HERE / "failing.py"), gpu="L4:2")
        try:
            job.result()
        except JobFailedError as error:
            print(f"rank {error.rank} failed first:\n{error.traceback}")


if __name__ == "__main__":
    main()
