"""QuotaReading quotas: few calls, side by side, and nothing false from what could not be read."""

import contextlib

from gputrain.quota import LimitSource, Verdict, contradictions
from gputrain_emulator.errors import ApiError
from gputrain_emulator.faults import (
    DropBeforeCommit,
    RawReply,
    Refuse,
    Reshape,
    html,
    server_error,
)
from tests.each import each
from tests.unit.quota.conftest import FAMILY, REGION, of_compute, standing

INFOS = "cloudquotas.quotaInfos.list"
REGIONS = "compute.regions.list"
PROJECT = "compute.projects.get"


def test_usage_is_taken_off_where_google_tells_it(cloud, reader):
    cloud.quota("NVIDIA_L4_GPUS", 8)
    cloud.fail(REGIONS, usage("NVIDIA_L4_GPUS", 7.0))
    found = standing(reader.read(), "L4", 2).deciding
    assert (found.limit, found.usage, found.verdict) == (8, 7, Verdict.SHORT)
    assert found.source is LimitSource.REGIONS


def test_the_newest_gpus_are_told_by_family_in_cloud_quotas_alone(cloud, reader):
    cloud.quota(FAMILY, 8, region=REGION, family="NVIDIA_H100")
    cloud.quota(FAMILY, 2, region=REGION)
    cloud.quota(FAMILY, 0)
    book = reader.read()
    near, far = standing(book, "H100", 8), standing(book, "H100", 8, region="europe-west4")
    assert near.verdict is Verdict.FITS
    assert near.deciding.source is LimitSource.CLOUD_QUOTAS
    assert near.deciding.usage is None
    assert standing(book, "H200", 8).deciding.limit == 2
    assert far.verdict is Verdict.SHORT
    assert far.deciding.limit == 0


def test_no_preemptible_cpus_may_mean_plain_ones_and_so_blocks_nothing(cloud, reader):
    cloud.quota("PREEMPTIBLE_CPUS", 0)
    found = standing(reader.read(), "T4", 1, "spot")
    assert found.verdict is Verdict.UNKNOWN
    assert "CPUS" in found.deciding.note
    assert not [one.note for one in found.readings if "does not tell it" in one.note]


def test_a_reservation_counts_against_nothing(reader):
    found = standing(reader.read(), "GB200", 4, "reservation-bound")
    assert (found.verdict, found.readings) == (Verdict.FITS, ())
    assert "when it was made" in found.note


def test_a_quota_of_zero_is_short_and_not_unknown(cloud, reader):
    cloud.quota("PREEMPTIBLE_NVIDIA_H200_GPUS", 0)
    found = standing(reader.read(), "H200", 8, "spot")
    assert (found.verdict, found.deciding.limit) == (Verdict.SHORT, 0)


def test_where_two_apis_contradict_each_other_both_are_shown_and_the_stricter_obeyed(cloud, reader):
    cloud.fail(INFOS, limit_in_cloud_quotas("NVIDIA-L4-GPUS-per-project-region", 2))
    found = standing(reader.read(), "L4", 4)
    assert found.verdict is Verdict.SHORT
    assert found.deciding.source is LimitSource.CLOUD_QUOTAS
    assert [[one.limit for one in group] for group in contradictions(found.readings)] == [[64, 2]]
    table = str(reader.quotas(regions=[REGION]))
    assert "regions.list says 64, Cloud Quotas says 2" in table


BROKEN = {
    "off": Refuse(error=ApiError(403, "It is off.", details=[{"reason": "SERVICE_DISABLED"}])),
    "forbidden": Refuse(error=ApiError(403, "Permission 'x.y' denied.", reason="forbidden")),
    "busy": Refuse(error=ApiError(429, "Slow down.", reason="rateLimitExceeded")),
    "down": server_error(503),
    "a proxy's page": html(502),
    "no answer": DropBeforeCommit(),
    "half a document": RawReply(
        status=200, body=b'{"items": [{"name": "us-ce', content_type="application/json"
    ),
    "a list": RawReply(status=200, body=b"[1, 2]", content_type="application/json"),
    "nothing": RawReply(status=200, body=b"{}", content_type="application/json"),
    "other shapes": RawReply(
        status=200,
        body=b'{"items": [7, {"name": 3, "quotas": {"a": 1}}], "quotas": "many", "quotaInfos": [{"quotaId":'
        b' "NVIDIA-L4-GPUS-per-project-region", "dimensionsInfos": [5, {"details": 4}, {"dimensions": 2}]}]}',
        content_type="application/json",
    ),
}


@each("fault", BROKEN.values())
@each("methods", [[INFOS], [REGIONS, PROJECT], [INFOS, REGIONS, PROJECT]])
def test_what_cannot_be_read_is_unknown_and_never_short(cloud, access, methods, fault):
    with contextlib.ExitStack() as stack:
        for method in methods:
            stack.callback(cloud.fail(method, fault, times=None).cancel)
        reader = of_compute(access())
        book, listed = reader.read(), reader.quotas(regions=[REGION])
    assert Verdict.SHORT not in {one.verdict for one in listed}
    assert standing(book, "H100", 8).verdict is (Verdict.UNKNOWN if INFOS in methods else Verdict.FITS)
    if len(methods) == 3:
        found = standing(book, "L4")
        assert found.verdict is Verdict.UNKNOWN
        assert found.deciding.note
    else:
        assert standing(book, "L4").verdict is Verdict.FITS


def test_a_permission_that_is_missing_is_named(cloud, access):
    caller = cloud.caller("me@example.com", ["compute.regions.list", "compute.projects.get"])
    book = of_compute(access(credentials=cloud.credentials_of(caller))).read()
    assert "cloudquotas.quotas.get" in standing(book, "H100", 8).deciding.note
    assert standing(book, "L4").verdict is Verdict.FITS


def usage(metric, value):
    """The regions with so much of a metric in use."""

    def change(document):
        for region in document["items"]:
            for quota in region["quotas"]:
                if quota["metric"] == metric:
                    quota["usage"] = value
        return document

    return Reshape(change=change)


def limit_in_cloud_quotas(quota_id, value):
    """Cloud Quotas telling another limit than Compute Engine does."""

    def change(document):
        for info in document["quotaInfos"]:
            if info["quotaId"] == quota_id:
                info["dimensionsInfos"] = [{"details": {"value": str(value)}}]
        return document

    return Reshape(change=change)
