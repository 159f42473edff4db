"""The arguments of a backend are read by rows: what cannot be read is refused, all of it at once."""

import inspect

import pytest

from gputrain import SpecError
from gputrain.backends.local import backend as local
from tests import present
from tests.each import each

GOOD = {"project": "my-project", "regions": ["us-central1"], "bucket": "gs://b-1"}
OBJECTS = {"endpoints": 3, "credentials": "ya29.a0", "progress": "bar", "sleep": 0.5, "now": None}
BAD = {
    "vertex": {"reduction_server": 2, "disk_gib": True, "regions": [7], "bucket": 3,
               "network": "default", "persistent_resource": "My Cluster", "disk_type": "floppy",
               "enable_web_access": 1, "nfs_mounts": [{"server": "10.0.0.2"}], "experiment": "mine",
               "experiment_run": "mine", "service_account": "nobody", "tensorboard": "1", "kms_key": "k",
               "project": "My Project", **OBJECTS},
    "compute": {"poll_s": 0, "external_ip": "yes", "check_network": None, "secure_boot": 1, "os_login": "no",
                "capacity_advice": 0, "network_tags": "ssh", "gpu_subnetworks": [7], "driver_wait_s": -1,
                "disk_gib": 10, "bucket": "my-bucket", "regions": [], "project": "Mine",
                "gpu_networking": "fast", "nccl_plugin": "a b", "nccl_daemon": "",
                "boot_image": "x", **OBJECTS},
}  # fmt: skip


def refused(name, **arguments):
    with pytest.raises(SpecError) as told:
        present.backend(name)(**{**GOOD, **arguments})
    return [fault.field for fault in told.value.faults]


@each(("name", "field"), [(name, field) for name in present.CLOUDS for field in BAD[name]])
def test_an_argument_that_cannot_be_read_is_one_fault(name, field):
    assert refused(name, **{field: BAD[name][field]}) == [field]


@pytest.mark.parametrize("name", present.CLOUDS)
def test_all_faults_are_told_at_once(name):
    assert sorted(refused(name, **BAD[name])) == sorted(BAD[name])


def test_a_look_at_a_cloud_never_follows_the_last_one_at_once():
    assert refused("compute", poll_s=1e-9) == ["poll_s"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("GPUTRAIN_HOME", "~no.such.user/x"), ("GPUTRAIN_HOME", "gs://b/x"), ("XDG_STATE_HOME", "s3://b/x")],
)
def test_a_variable_that_names_no_folder_is_refused_by_its_name(variable, value, monkeypatch):
    monkeypatch.delenv("GPUTRAIN_HOME", raising=False)
    monkeypatch.setenv(variable, value)
    with pytest.raises(SpecError) as told:
        present.backend("local")()
    assert [fault.field for fault in told.value.faults] == [f"${variable}"]


@pytest.mark.parametrize("name", [*present.CLOUDS, "local"])
def test_every_argument_has_its_row_and_every_row_its_argument(name):
    backend = present.backend(name)
    rows = local.ROWS if name == "local" else backend._settings_class.rows()
    assert set(inspect.signature(backend).parameters) == set(rows)


@each(
    "arguments",
    [
        {"gpus": -1},
        {"gpus": True},
        {"gpus": "2"},
        {"root": 7},
        {"root": "~no.such.user/x"},
        {"root": "gs://my-bucket/jobs"},
        {"root": "file:///jobs"},
    ],
)
def test_a_machine_of_ones_own_refuses_alike(arguments):
    with pytest.raises(SpecError) as told:
        present.backend("local")(**arguments)
    assert [fault.field for fault in told.value.faults] == list(arguments)
