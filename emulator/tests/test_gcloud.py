"""The real gcloud against the emulator, unmodified."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputrain_emulator import Cloud
from gputrain_emulator.gcloud import environment as environment_of
from gputrain_emulator.storage import Storage
from gputrain_emulator.vertex import Vertex

PROGRAM = shutil.which("gcloud")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="gcloud is not installed")

PAGE = Path(__file__).parents[1] / "docs" / "howto.md"
BOOT = "--machine-type=g2-standard-4 --maintenance-policy=TERMINATE"

Gcloud = Callable[..., str]


@pytest.fixture(scope="session")
def configuration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty configuration folder, so that nobody's own account is used."""
    return tmp_path_factory.mktemp("gcloud")


@pytest.fixture
def gcloud(cloud: Cloud, configuration: Path) -> Gcloud:
    """Runs a gcloud command; its output and messages. Fails the test unless it exits as expected."""
    cloud.add_bucket("my-bucket")
    environment = {"PATH": os.environ["PATH"], "HOME": str(configuration)}
    environment |= environment_of(
        cloud.endpoints.url, configuration, project=cloud.project, zone="us-central1-a"
    )

    def run(words: str, status: int = 0) -> str:
        assert PROGRAM is not None
        done = subprocess.run(
            [PROGRAM, *words.split()],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    return run


def read(gcloud: Gcloud, words: str) -> Any:
    """The JSON that a gcloud command prints, after what it says on the way."""
    begin = re.split(r"^(?=[\[{])", gcloud(f"{words} --format=json"), maxsplit=1, flags=re.MULTILINE)[-1]
    return json.JSONDecoder().raw_decode(begin)[0]


def test_the_howto_page_prints_what_it_says(cloud: Cloud) -> None:
    page = PAGE.read_text().replace("127.0.0.1:18080", cloud.endpoints.url.removeprefix("http://"))
    exports = "\n".join(re.findall(r"^export .*$", page, re.MULTILINE))
    steps = [
        step for block in re.findall(r"^```console\n(.*?)^```", page, re.M | re.S) for step in _steps(block)
    ]
    mark = "-- next --"
    script = exports + "\n" + "".join(f"{command} 2>&1; echo '{mark}'\n" for command, _ in steps)
    environment = {name: os.environ.get(name, "/") for name in ("PATH", "HOME", "TMPDIR")}
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=200, check=True
    )
    printed = done.stdout.split(mark + "\n")
    assert len(steps) >= 10
    for (command, expected), said in zip(steps, printed, strict=False):
        pattern = ".*".join(re.escape(piece) for piece in " ".join(expected.split()).split("..."))
        assert re.fullmatch(pattern, " ".join(said.split())), f"{command}\n{said}"


def _steps(block: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output that follows it."""
    rows = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, said) for command, _, said in (row.partition("\n") for row in rows)]


def test_places_and_kinds_are_listed(gcloud: Gcloud) -> None:
    assert "us-central1" in gcloud("compute regions list --format=value(name)").split()
    region = read(gcloud, "compute regions describe us-central1")
    assert "NVIDIA_L4_GPUS" in {row["metric"] for row in region["quotas"]}
    zones = gcloud("compute zones list --filter=region:us-central1 --format=value(name)").split()
    assert zones == ["us-central1-a", "us-central1-b", "us-central1-c", "us-central1-f"]
    kinds = gcloud("compute accelerator-types list --filter=zone:us-central1-a --format=value(name)")
    assert "nvidia-l4" in kinds.split()
    machines = read(gcloud, "compute machine-types list --zones=us-central1-a --filter=name=a2-highgpu-8g")
    shapes = [(row["name"], row["guestCpus"], row["memoryMb"]) for row in machines]
    assert shapes == [("a2-highgpu-8g", 96, 696320)]


def test_an_instance_is_described_stopped_and_deleted(cloud: Cloud, gcloud: Gcloud) -> None:
    gcloud(f"compute instances create vm-1 {BOOT} --metadata=greeting=hello --labels=run=one")
    vm = read(gcloud, "compute instances describe vm-1")
    assert (vm["status"], vm["labels"]) == ("RUNNING", {"run": "one"})
    assert vm["metadata"]["items"] == [{"key": "greeting", "value": "hello"}]
    listed = gcloud("compute instances list --filter=labels.run=one --format=value(name,status)")
    assert listed.split() == ["vm-1", "RUNNING"]
    cloud.serial("vm-1", "first line\n")
    said = gcloud("compute instances get-serial-port-output vm-1")
    assert "first line" in said
    assert "--start=11" in said
    cloud.serial("vm-1", "second line\n")
    said = gcloud("compute instances get-serial-port-output vm-1 --start=11")
    assert "second line" in said
    assert "first line" not in said
    gcloud("compute instances stop vm-1")
    assert cloud.compute.find_vm("vm-1").resource["status"] == "TERMINATED"
    assert "Deleted" in gcloud("compute instances delete vm-1")
    assert cloud.compute.vms == {}


def test_quota_and_stockout_are_told_as_google_tells_them(cloud: Cloud, gcloud: Gcloud) -> None:
    cloud.quota("NVIDIA_L4_GPUS", 0, region="us-central1")
    said = gcloud(f"compute instances create vm-1 {BOOT}", status=1)
    assert "Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 0.0 in region us-central1." in said
    cloud.quota("NVIDIA_L4_GPUS", 8, region="us-central1")
    cloud.stock("us-central1-a", "g2-standard-4", 1)
    said = gcloud(
        "compute instances bulk create --name-pattern=gang-# --count=2 --zone=us-central1-a"
        " --machine-type=g2-standard-4 --on-host-maintenance=TERMINATE"
    )
    assert "does not have enough resources available" in " ".join(said.split())
    cloud.clock.advance(60)
    assert cloud.compute.vms == {}


def test_a_job_from_a_config_file_is_cancelled(cloud: Cloud, gcloud: Gcloud, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "workerPoolSpecs:\n"
        "- machineSpec: {machineType: g2-standard-4, acceleratorType: NVIDIA_L4, acceleratorCount: 1}\n"
        "  replicaCount: 1\n  containerSpec: {imageUri: gcr.io/p/i, command: [echo, hello]}\n"
        "scheduling: {timeout: 3600s, strategy: SPOT}\n"
    )
    gcloud(f"ai custom-jobs create --display-name=one --config={config} --labels=run=one")
    (job,) = cloud.world.part(Vertex).jobs.values()
    shown = read(gcloud, f"ai custom-jobs describe {job.name}")
    assert shown["jobSpec"]["scheduling"] == {"timeout": "3600s", "strategy": "SPOT"}
    assert shown["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["command"] == ["echo", "hello"]
    gcloud(f"ai custom-jobs cancel {job.name}")
    cloud.clock.advance(60)
    listed = read(gcloud, "ai custom-jobs list --filter=labels.run=one")
    assert [row["state"] for row in listed] == ["JOB_STATE_CANCELLED"]
    config.write_text("workerPoolSpecs:\n- colour: blue\n  containerSpec: {imageUri: gcr.io/p/i}\n")
    assert "colour" in gcloud(f"ai custom-jobs create --display-name=two --config={config}", status=1)


def test_quotas_are_listed(cloud: Cloud, gcloud: Gcloud) -> None:
    words = f"beta quotas info list --service=compute.googleapis.com --project={cloud.project}"
    names = gcloud(f"{words} --format=value(quotaId)").split()
    assert "GPUS-PER-GPU-FAMILY-per-project-region" in names


def test_a_project_its_apis_and_its_accounts_are_described(cloud: Cloud, gcloud: Gcloud) -> None:
    number = gcloud(f"projects describe {cloud.project} --format=value(projectNumber)")
    assert number.strip() == cloud.world.projects[cloud.project].number
    cloud.enable_api("logging", enabled=False)
    gcloud("services enable secretmanager.googleapis.com")
    on = gcloud("services list --enabled --format=value(config.name)").split()
    assert "secretmanager.googleapis.com" in on
    assert "logging.googleapis.com" not in on
    account = f"train@{cloud.project}.iam.gserviceaccount.com"
    assert gcloud(f"iam service-accounts describe {account} --format=value(email)").split() == [account]


def test_a_resize_request_is_made_watched_and_cancelled(cloud: Cloud, gcloud: Gcloud) -> None:
    cloud.stock("us-central1-a", "n1-standard-4", 0)
    gcloud(
        "compute instance-templates create t --machine-type=n1-standard-4 --image-family=debian-12"
        " --image-project=debian-cloud --no-scopes --no-service-account"
    )
    managed = "compute instance-groups managed"
    gcloud(f"{managed} create gang --template=t --size=0 --default-action-on-vm-failure=do-nothing")
    requests = f"{managed} resize-requests"
    gcloud(f"{requests} create gang --resize-request=r --resize-by=2 --requested-run-duration=1h")
    cloud.clock.advance(60)
    waiting = read(gcloud, f"{requests} describe gang --resize-request=r")
    assert (waiting["state"], waiting["resizeBy"]) == ("ACCEPTED", 2)
    assert [one["name"] for one in read(gcloud, f"{requests} list gang")] == ["r"]
    gcloud(f"{requests} cancel gang --resize-requests=r")
    assert read(gcloud, f"{requests} describe gang --resize-request=r")["state"] == "CANCELLED"
    gcloud(f"{requests} delete gang --resize-requests=r")
    assert read(gcloud, f"{requests} list gang") == []


def test_files_go_up_are_listed_come_back_and_are_removed(
    cloud: Cloud, gcloud: Gcloud, tmp_path: Path
) -> None:
    here, back = tmp_path / "here", tmp_path / "back"
    nine = random.Random(9).randbytes(9 * 1024 * 1024)  # above 8 MiB gcloud uploads resumably
    for name, data in (("a", b"one\r\n--two\n\x00\xff"), ("dir/b", nine)):
        here.write_bytes(data)
        gcloud(f"storage cp {here} gs://my-bucket/{name}")
        gcloud(f"storage cp gs://my-bucket/{name} {back}")
        assert back.read_bytes() == data
    assert [seen for seen in cloud.requests if seen.path.startswith("/resumable/upload/")]
    gcloud("storage rm --recursive gs://my-bucket/dir")
    assert gcloud("storage ls gs://my-bucket").split() == ["gs://my-bucket/a"]
    gcloud("storage rm --recursive gs://my-bucket")
    assert cloud.world.part(Storage).buckets.all() == ()


def test_a_bucket_is_made_described_and_changed(gcloud: Gcloud) -> None:
    made = "gs://made-by-gcloud"
    gcloud(f"storage buckets create {made} --location=us-central1 --uniform-bucket-level-access")
    gcloud(f"storage buckets update {made} --update-labels=team=mine")
    told = read(gcloud, f"storage buckets describe {made} --raw")
    assert told["labels"] == {"team": "mine"}
    assert told["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"]
