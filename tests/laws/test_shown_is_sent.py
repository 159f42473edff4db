"""What a plan shows is what a cloud receives, but for the attempt's id; and to look changes nothing."""

import json

import pytest

from gputrain import ComputeEngine, Trainer, VertexAI
from gputrain.backends.compute.calls import message
from gputrain.trainer.planner import SHOWN_ID
from gputrain_emulator.compute.networks import add_network
from gputrain_emulator.compute.state import Compute
from gputrain_emulator.registry import Registry
from tests.support.clouds import REGION, emulated, settings

IMAGE = "us-docker.pkg.dev/my-project/train/mine:latest"
GPU_NETS = [f"gpu-sub-{number}" for number in range(1, 9)]

VERTEX = {
    "one node": {"gpu": "L4:2"},
    "two nodes": {"gpu": "L4:1", "num_nodes": 2, "image": IMAGE, "max_restarts": 2},
    "spot": {"gpu": "A100-80GB:1", "provisioning_model": "spot", "labels": {"team": "nlp"}},
    "flex-start": {"gpu": "H100:1", "provisioning_model": "flex-start", "max_wait_duration": "2h"},
}
COMPUTE = {
    "one VM": {"gpu": "L4:1"},
    "a gang": {"gpu": "L4:1", "num_nodes": 3, "image": IMAGE, "args": ["--say", "$(id) 'ü'\n"]},
    "spot": {"gpu": "L4:2", "num_nodes": 2, "provisioning_model": "spot", "max_restarts": 1},
    "flex-start": {"gpu": "L4:1", "provisioning_model": "flex-start", "max_wait_duration": "20m"},
    "GPU networking": {"gpu": "H100-MEGA:8", "num_nodes": 2, "max_run_duration": "1h", "image": IMAGE},
}


@pytest.fixture
def cloud():
    with emulated() as running:
        running.dispatcher.requests.keep_everything()
        running.world.part(Registry).add(IMAGE, ("linux/amd64",))
        for name in GPU_NETS:
            add_network(running.world.part(Compute), "my-project", name, (REGION,))
        for metric in ("NVIDIA_L4_GPUS", "PREEMPTIBLE_NVIDIA_L4_GPUS", "GPUS_ALL_REGIONS"):
            running.quota(metric, 100)
        running.quota("GPUS_PER_GPU_FAMILY", 100, family="NVIDIA_H100_MEGA")
        yield running


@pytest.fixture
def planned(cloud, tmp_path):
    (tmp_path / "train.py").write_text("print('hello')\n")

    def plan(kind, fields, **own):
        backend = kind(**settings(cloud, regions=[REGION], **own))
        return Trainer(backend).plan(str(tmp_path / "train.py"), **fields)

    return plan


def shown_and_sent(cloud, job, creates):
    """What the plan showed, with the attempt's id that was drawn since; and what arrived first."""
    before = len(cloud.requests)
    (shown,) = job.requests
    again = job.requests
    assert again == (shown,)
    looked = cloud.requests[before:]
    assert {one.verb for one in looked} <= {"GET", "HEAD"}
    assert not [one for one in looked if one.verb != "GET" and "manifests" not in one.method]
    job.submit()
    first = next(one for one in cloud.requests if one.method in creates)
    sent = json.loads(first.body)
    attempt_id = sent.get("instanceProperties", sent)["labels"]["gputrain-attempt"]
    return json.loads(json.dumps(shown).replace(SHOWN_ID, attempt_id)), first, sent


@pytest.mark.parametrize("case", VERTEX)
def test_vertex_receives_what_the_plan_showed(cloud, planned, case):
    from google.cloud.aiplatform_v1.types import CustomJob

    job = planned(VertexAI, VERTEX[case])
    shown, _, sent = shown_and_sent(cloud, job, {"aiplatform.customJobs.create"})
    assert shown["parent"] == f"projects/my-project/locations/{REGION}"
    read = [CustomJob.from_json(json.dumps(one)) for one in (shown["customJob"], sent)]
    assert read[0] == read[1]


@pytest.mark.parametrize("case", COMPUTE)
def test_compute_engine_receives_what_the_plan_showed(cloud, planned, case):
    networking = "tcpxo" if case == "GPU networking" else "auto"
    own = {"gpu_networking": networking, "gpu_subnetworks": GPU_NETS, "external_ip": True}
    job = planned(ComputeEngine, COMPUTE[case], **own)
    shown, first, sent = shown_and_sent(
        cloud, job, {"compute.instances.bulkInsert", "compute.instances.insert"}
    )
    assert first.method == f"compute.instances.{shown['method']}"
    assert f"/zones/{shown['zone']}/" in first.path
    assert message(shown["method"], shown["resource"]) == message(shown["method"], sent)
    assert f'"seconds": "{int(job.best.max_run_duration.total_seconds())}"' in json.dumps(shown)
