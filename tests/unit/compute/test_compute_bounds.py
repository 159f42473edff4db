"""Up to where a backend of VMs goes: how long it waits, how seldom it looks, what suits a machine."""

import pytest

from gputrain.backends.compute import ComputeEngine, images
from gputrain.errors import SpecError
from tests.unit.compute.test_compute_render import rendered


def backend_of(**settings):
    given = {"project": "my-project", "regions": ["us-central1"], "bucket": "gs://my-bucket"}
    return ComputeEngine(**{**given, **settings})


@pytest.mark.parametrize(
    ("field", "taken", "refused"),
    [
        ("disk_gib", (50, 64_000), (49, 64_001)),
        ("driver_wait_s", (0, 3600), (-1, 3601)),
        ("poll_s", (0.1, 3599.5), (0, -1, 3600.5)),
        ("network", ("n" * 63, "n"), ("n" * 64, "", "1n")),
    ],
)
def test_a_number_of_the_settings_goes_from_its_least_to_its_most(field, taken, refused):
    for value in taken:
        backend_of(**{field: value})
    for value in refused:
        with pytest.raises(SpecError, match=field):
            backend_of(**{field: value})


def test_an_image_and_a_family_are_not_both_named():
    image, family = {"boot_image": "projects/p/global/images/i"}, {"image_family": "p/f"}
    assert images.path_of(backend_of(**image)._settings) == "projects/p/global/images/i"
    assert images.path_of(backend_of(**family)._settings) == "projects/p/global/images/family/f"
    assert images.path_of(backend_of()._settings) == ""
    with pytest.raises(SpecError, match="an image or a family"):
        backend_of(**image, **family)


@pytest.mark.parametrize(
    ("fields", "queue_s", "limit_s"),
    [
        (
            {"provisioning_model": "flex-start", "max_wait_duration": "90m", "max_run_duration": "5m"},
            5400,
            300,
        ),
        ({"provisioning_model": "flex-start", "max_wait_duration": "9h"}, 7200, None),
        ({"provisioning_model": "spot", "max_wait_duration": "9h"}, 0, None),
        (
            {
                "provisioning_model": "flex-start",
                "num_nodes": 2,
                "max_wait_duration": "9h",
                "max_run_duration": "5m",
            },
            7200,
            600,
        ),
        ({"provisioning_model": "spot", "num_nodes": 2, "max_run_duration": "5m"}, 0, 300),
        ({"provisioning_model": "spot", "max_run_duration": "7s"}, 0, 30),
    ],
)
def test_one_vm_waits_in_googles_queue_as_long_as_its_job_may_and_google_lets_it(fields, queue_s, limit_s):
    body = rendered({}, {"gpu": "L4:1", **fields})
    assert body["queue_s"] == queue_s
    scheduling = body["properties"]["scheduling"]
    assert limit_s is None or scheduling["maxRunDuration"] == {"seconds": str(limit_s)}
    assert ("preemptionNoticeDuration" in scheduling) is (fields["provisioning_model"] == "spot")
