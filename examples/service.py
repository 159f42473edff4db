"""A service on asyncio with four tenants: each has jobs of its own, one event loop awaits them all."""

import asyncio
import json
import tempfile

import gputrain

TENANTS = ("ann", "bob", "cyd", "dee")


def trainer_of(tenant, root):
    """A tenant's own trainer; on Google Cloud: its own project, bucket and credentials."""
    return gputrain.Trainer(gputrain.Local(gpus=0, root=f"{root}/{tenant}"))


async def serve(tenant, trainer, events):
    """One request: submit off the loop, tell of changes, await the end; a timeout leaves the job alone."""
    trainer.watch(lambda event: events.append((tenant, event.to_dict())))
    job = await asyncio.to_thread(
        trainer.submit, "examples/train_session.py", args=["--steps", "5"], idempotency_key=f"{tenant} 1",
        labels={"tenant": tenant},
    )  # fmt: skip
    try:
        await asyncio.wait_for(job, timeout=0.01)
    except asyncio.TimeoutError:
        print(f"{tenant}: still {job.refresh().state}, and nobody's job was harmed")
    return await job


async def main():
    events = []
    with tempfile.TemporaryDirectory() as root:
        trainers = {tenant: trainer_of(tenant, root) for tenant in TENANTS}
        results = await asyncio.gather(*(serve(tenant, trainers[tenant], events) for tenant in TENANTS))
        for tenant, result in zip(TENANTS, results):
            print(f"{tenant}: {result.state}, loss {result.metrics.last['loss']:.3f}")
            assert len(trainers[tenant].jobs()) == 1
    print(json.dumps(events[-1][1], indent=2))


asyncio.run(main())
