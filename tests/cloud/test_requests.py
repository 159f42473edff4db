"""Every argument of a cloud backend and every field of a spec stands in the request that a plan shows."""

import inspect
import json
from pathlib import Path

import attrs

from gputrain import TrainingSpec
from gputrain.backends.vertex import NfsMount, ReductionServer
from tests import present
from tests.each import each

REGION = "projects/my-project/locations/us-central1"
RESERVATION = "projects/my-project/zones/us-central1-a/reservations/big"
GANG = {"gpu": "A100-80GB:8", "num_nodes": 2, "provisioning_model": "spot"}
TCPXO = {"gpu": "H100-MEGA:8", "num_nodes": 2, "provisioning_model": "spot", "image": "gcr.io/p/i@sha256:0"}
NETS = [f"gpu-{number}" for number in range(8)]
READY = {"image_family": "my-project/mine"}
"""A boot image of one's own is believed to have what TCPXO needs."""

VERTEX = {
    "bucket": ("gs://my-bucket/mine", {}, "gs://my-bucket/mine/"),
    "service_account": ("me@my-project.iam.gserviceaccount.com", {}, "me@my-project"),
    "network": ("projects/1/global/networks/mine", {}, "global/networks/mine"),
    "network_attachment": (
        "projects/my-project/regions/us-central1/networkAttachments/mine", {}, "networkAttachments/mine"
    ),
    "tensorboard": (f"{REGION}/tensorboards/7", {}, "tensorboards/7"),
    "persistent_resource": ("my-cluster", {}, '"persistentResourceId": "my-cluster"'),
    "kms_key": (f"{REGION}/keyRings/r/cryptoKeys/k", {}, "cryptoKeys/k"),
    "disk_gib": (567, {}, '"bootDiskSizeGb": 567'),
    "disk_type": ("pd-standard", {}, "pd-standard"),
    "reduction_server": (ReductionServer(replicas=7), {"gpu": "V100:8", "num_nodes": 2}, "reductionserver"),
    "enable_web_access": (True, {}, '"enableWebAccess": true'),
    "nfs_mounts": ([NfsMount(server="10.0.0.2", path="/share", mount_point="data")], {}, "10.0.0.2"),
    "experiment": (f"{REGION}/metadataStores/default/contexts/scan", {}, "contexts/scan"),
    "experiment_run": (f"{REGION}/metadataStores/default/contexts/scan-1", {}, "contexts/scan-1"),
}  # fmt: skip
COMPUTE = {
    "bucket": ("gs://my-bucket/mine", {}, "gs://my-bucket/mine/"),
    "service_account": ("me@my-project.iam.gserviceaccount.com", {}, "me@my-project"),
    "network": ("mine", {}, "global/networks/mine"),
    "subnetwork": ("mine", {}, "subnetworks/mine"),
    "gpu_subnetworks": (NETS, TCPXO, "subnetworks/gpu-7"),
    "gpu_networking": ("single-nic", TCPXO, '"GPUTRAIN_NCCL_NET": "Socket"'),
    "nccl_plugin": ("gcr.io/p/plugin:v9", TCPXO, "gcr.io/p/plugin:v9"),
    "nccl_daemon": ("gcr.io/p/daemon:v9", TCPXO, "gcr.io/p/daemon:v9"),
    "boot_image": ("projects/my-project/global/images/mine-1", {}, "global/images/mine-1"),
    "image_family": ("my-project/mine", {}, "global/images/mine-1"),
    "disk_gib": (567, {}, '"diskSizeGb": "567"'),
    "disk_type": ("pd-ssd", {}, "pd-ssd"),
    "kms_key": (f"{REGION}/keyRings/r/cryptoKeys/k", {}, '"kmsKeyName": "projects/'),
    "placement_policy": ("together", GANG, '"resourcePolicies": ["together"]'),
    "python": ("/opt/mine/bin/python3", {}, "/opt/mine/bin/python3"),
    "driver_wait_s": (1234, {}, "1234"),
    "external_ip": (True, {}, "ONE_TO_ONE_NAT"),
    "secure_boot": (True, {}, '"enableSecureBoot": true'),
    "os_login": (False, {}, '{"key": "enable-oslogin", "value": "FALSE"}'),
    "network_tags": (["tagged"], {}, "tagged"),
}
BESIDE = {
    "network_attachment": {"network": None},
    "tensorboard": {"service_account": "other@my-project.iam.gserviceaccount.com"},
    "nfs_mounts": {"network": "projects/1/global/networks/default"},
    "experiment_run": {"experiment": f"{REGION}/metadataStores/default/contexts/one"},
    "gpu_subnetworks": {**READY, "gpu_subnetworks": [f"other-{number}" for number in range(8)]},
    "nccl_plugin": {**READY, "gpu_subnetworks": NETS},
    "nccl_daemon": {**READY, "gpu_subnetworks": NETS},
    "gpu_networking": {**READY, "gpu_subnetworks": NETS},
}
"""What an argument needs beside it; what stands in the request without it."""

ROWS = {"vertex": VERTEX, "compute": COMPUTE}
UNSEEN = {"vertex": {}, "compute": {"check_network": False}}
"""Names here are of networks that the emulator has not."""

ELSEWHERE = {
    "vertex": ["project", "region", "regions", "image_repository", "management_fee"],
    "compute": ["project", "regions", "image_repository", "check_network", "capacity_advice", "poll_s"],
}
"""What changes something else than the request; each has a row of its own on the page of promises."""

DOORS = ["endpoints", "credentials", "progress", "sleep", "now"]

FIELDS = {
    "script": ({}, "train.py"),
    "module": ({"module": "train"}, '"-m", "train"'),
    "command": ({"command": ["python3", "-c", "'mine'"]}, "'mine'"),
    "entrypoint": (
        {"entrypoint": ["mine"], "image": "gcr.io/p/i@sha256:0", "source_dir": None},
        {"vertex": '"command": ["mine"]', "compute": '"entrypoint": ["mine"]'},
    ),
    "args": ({"args": ["--lr", "3e-4"]}, '"--lr", "3e-4"'),
    "requirements": ({"requirements": ["einops==0.8.0"]}, "einops==0.8.0"),
    "image": ({"image": "gcr.io/p/mine@sha256:0"}, "gcr.io/p/mine@sha256:0"),
    "launcher": ({"launcher": "tensorflow"}, ': "tensorflow"'),
    "gpu": ({"gpu": "A100-80GB:8"}, "a2-ultragpu-8g"),
    "num_nodes": ({"num_nodes": 7}, {"vertex": '"replicaCount": "6"', "compute": '"count": "7"'}),
    "nproc_per_node": ({"nproc_per_node": 5}, '"5"'),
    "provisioning_model": ({"provisioning_model": "spot"}, '"SPOT"'),
    "reservation": ({"reservation": RESERVATION}, 'reservations/big"'),
    "machine_type": ({"machine_type": "g2-standard-32"}, "g2-standard-32"),
    "max_run_duration": ({"max_run_duration": "61m"}, "3660"),
    "max_wait_duration": (
        {"gpu": "H100:8", "provisioning_model": "flex-start", "max_wait_duration": "61m"}, "3660"
    ),
    "hang_timeout": ({"hang_timeout": "61m"}, '"3660"'),
    "env": ({"env": {"COLOUR": "blue"}}, ': "blue"'),
    "secrets": ({"secrets": {"KEY": "secret://projects/p/secrets/s/versions/1"}}, "secret://projects/p"),
    "checkpoint_dir": ({"checkpoint_dir": "gs://my-bucket/ckpt"}, "my-bucket/ckpt"),
    "output_dir": ({"output_dir": "gs://my-bucket/out"}, "my-bucket/out"),
    "keep_outputs": ({"keep_outputs": True}, '"GPUTRAIN_KEEP_OUTPUTS"'),
    "labels": ({"labels": {"team": "nlp"}}, '"team": "nlp"'),
    "name": ({"name": "bert"}, "bert-"),
}  # fmt: skip
OF_THE_JOB = ["function", "source_dir", "max_cost", "price_per_hour", "max_restarts", "min_nodes"]
"""What travels with the code, becomes another limit, or counts once an attempt has ended."""


def request(trainer, script, **fields):
    """What the plan shows, as one text; documents within it are read."""
    entry = None if {"module", "command", "entrypoint"} & set(fields) else script
    plan = trainer.plan(entry, **{"gpu": "L4:1", "source_dir": str(Path(script).parent), **fields})
    return json.dumps(plan.requests).replace('\\"', '"')


@each(("kind", "name"), [(kind, name) for kind, rows in ROWS.items() for name in rows])
def test_an_argument_of_a_cloud_backend_stands_in_the_request(trainer, script, kind, name):
    value, fields, text = ROWS[kind][name]
    beside = {**UNSEEN[kind], **BESIDE.get(name, {})}
    assert text in request(trainer(kind, **{**beside, name: value}), script, **fields)
    assert text not in request(trainer(kind, **beside), script, **fields)


@each("kind", ROWS)
def test_no_argument_of_a_cloud_backend_is_without_a_row(kind):
    assert set(inspect.signature(present.backend(kind)).parameters) == {*ROWS[kind], *ELSEWHERE[kind], *DOORS}


@each(("kind", "name"), [(kind, name) for kind in ROWS for name in FIELDS])
def test_a_field_of_a_spec_stands_in_the_request(trainer, script, kind, name):
    there = trainer(kind, **UNSEEN[kind])
    fields, text = FIELDS[name]
    text = text[kind] if isinstance(text, dict) else text
    assert text in request(there, script, **fields)
    without = {other: value for other, value in fields.items() if other != name}
    assert text not in request(there, script, **without) or name == "script"


def test_no_field_of_a_spec_is_without_a_row():
    assert {field.name for field in attrs.fields(TrainingSpec)} == {*FIELDS, *OF_THE_JOB}
