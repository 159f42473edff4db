"""The first run on Google Cloud, for a few dollars of at most twenty: what no emulator can prove.

``python examples/first_real_run.py PROJECT gs://BUCKET [IMAGE]`` runs there; without words it runs on an
emulated cloud. Every answer goes word for word into a file: look through it before you share it.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import requests

import gputrain_emulator
from gputrain import ComputeEngine, Job, Trainer

ANSWERS, send = Path(tempfile.mkdtemp()) / "answers.jsonl", requests.Session.send
LOOK, SAVE = (str(Path(__file__).with_name(name)) for name in ("look_around.py", "save_when_asked.py"))
EACH, PAIR = {"gpu": "L4:1", "max_run_duration": "30m", "max_cost": 4}, {"num_nodes": 2, "max_cost": 8}


def recorded(session: Any, request: requests.PreparedRequest, **options: Any) -> requests.Response:
    response = send(session, request, **options)
    row = {"sent": str(request.body or ""), "status": response.status_code, "answer": response.text}
    with ANSWERS.open("a") as file:
        file.write(json.dumps({"call": f"{request.method} {request.url}", **row}) + "\n")
    return response


def run(trainer: Trainer, image: str | None) -> bool:
    """Look, train on a pair, in a container, cancel, clean up; whether all of it went well."""
    requests.Session.send = recorded  # type: ignore[method-assign]
    made, well = dict[str, Job](), dict[str, bool]()
    print(checks := trainer.doctor(LOOK, **EACH))
    if not checks.is_ok:
        return False  # nothing was made, nothing costs
    try:
        for name, fields in [("pair", PAIR), ("container", {"image": image})][: 2 if image else 1]:
            job = made[name] = trainer.submit(LOOK, **{**EACH, **fields})
            well[name] = job.wait(timeout=2400) == "succeeded"
        job = made["cancel"] = trainer.submit(SAVE, **EACH)
        any(line.message == "training" for line in job.logs(follow=True))
        job.cancel()
        job.wait(timeout=600)
        well["cancel"] = any(line.message == "saved" for line in job.logs())
    finally:  # whatever happened, a Ctrl-C too: nothing is left that bills
        for name, job in made.items():
            job.cancel()
            print(f"{name:10}{'well' if well.get(name) else 'NOT WELL':9} {job.uri}, ${job.cost_usd}")
        print("removed", trainer.clean_up(), "left", left := trainer.orphans(), "answers in", ANSWERS)
    return not left and all(well.values())


if __name__ == "__main__" and sys.argv[1:]:
    there = ComputeEngine(sys.argv[1], regions=["us-central1"], bucket=sys.argv[2], external_ip=True)
    sys.exit(not run(Trainer(there), (*sys.argv, None)[3]))
elif __name__ == "__main__":
    with gputrain_emulator.start(wall_clock=True, live=True) as cloud:
        cloud.add_bucket("my-bucket")
        reach = {"endpoints": cloud.endpoints, "credentials": cloud.credentials, "external_ip": True}
        here = ComputeEngine("my-project", regions=["us-central1"], bucket="gs://my-bucket", **reach)
        sys.exit(not run(Trainer(here), None))
