"""The first run on Google Cloud, for a few dollars of at most twenty: what no emulator can prove.

``python examples/first_real_run.py PROJECT gs://BUCKET [IMAGE]`` runs there; without words it runs on an
emulated cloud. Every answer goes word for word into a file: look through it before you share it.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import gputrain_emulator
from gputrain import ComputeEngine, Trainer
from gputrain.gcp import wire
from gputrain_emulator.live import LiveMode
from gputrain_emulator.storage import Storage

HERE, ANSWERS = Path(__file__).parent, Path(tempfile.mkdtemp()) / "answers.jsonl"
EACH = {"gpu": "L4:1", "max_run_duration": "30m", "max_cost": 4}  # five VMs at most: 5 x 4 dollars
exchange = wire.exchange


def recorded(session: Any, method: str, url: str, **request: Any) -> wire.Reply:
    reply = exchange(session, method, url, **request)
    row = {"call": f"{method} {url}", "sent": request.get("json"), "status": reply.status_code}
    with ANSWERS.open("a") as file:
        file.write(json.dumps({**row, "answer": reply.text}) + "\n")
    return reply


def run(trainer: Trainer, image: str | None) -> bool:
    """Look, train on a pair, in a container, cancel, clean up; whether all of it went well."""
    wire.exchange, ledger = recorded, []
    print(trainer.doctor(str(HERE / "look_around.py"), **EACH))
    for name, fields in (("pair", {"num_nodes": 2, "max_cost": 8}), ("container", {"image": image})):
        if name != "container" or image:
            job = trainer.submit(str(HERE / "look_around.py"), **{**EACH, **fields})
            ledger.append((name, job, job.wait(timeout=2400) == "succeeded"))
    job = trainer.submit(str(HERE / "save_when_asked.py"), **EACH)
    next(line for line in job.logs(follow=True) if line.message == "training")
    job.cancel()
    ledger.append(("cancel", job, "saved" in [line.message for line in job.logs()]))
    for name, job, is_well in ledger:
        print(f"{name:10}{'well' if is_well else 'NOT WELL':9} {job.uri}, ${job.cost_usd}\n{job.attempts}")
    print("removed", trainer.clean_up(), "left", left := trainer.orphans(), "answers in", ANSWERS)
    return not left and all(is_well for _, _, is_well in ledger)


if __name__ == "__main__" and sys.argv[1:]:
    project, bucket, *image = sys.argv[1:]
    there = Trainer(ComputeEngine(project, regions=["us-central1"], bucket=bucket, external_ip=True))
    sys.exit(not run(there, *image or [None]))
elif __name__ == "__main__":
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.attach(LiveMode(cloud.world))
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "external_ip": True}
        here = ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach)
        sys.exit(not run(Trainer(here), None))
