"""Reading quotas: few calls, side by side, and nothing false from what could not be read."""

import contextlib
import threading

import pytest

from gputrain.catalog import Service
from gputrain.quota import EVERYWHERE, LimitSource, Verdict, contradictions
from gputrain.quota.reader import Reader
from gputrain.quota.shown import quotas
from gputrain_emulator.errors import ApiError
from gputrain_emulator.faults import (
    Delay,
    DropBeforeCommit,
    RawReply,
    Refuse,
    Reshape,
    bad_gateway,
    partial_page,
    server_error,
)
from tests.each import each
from tests.unit.quota.conftest import FAMILY, READS, REGION, standing

INFOS = "cloudquotas.quotaInfos.list"
REGIONS = "compute.regions.list"
PROJECT = "compute.projects.get"


def test_three_calls_tell_all_gpus_in_all_regions(cloud, reader):
    book = reader.read()
    found = quotas(book, Service.COMPUTE, regions=["us-central1", "europe-west4", "asia-southeast1"])
    assert {one.method for one in cloud.requests} == READS
    assert len(cloud.requests) == 3
    assert {one.gpu for one in found} >= {
        "L4",
        "T4",
        "V100",
        "A100-40GB",
        "A100-80GB",
        "H100",
        "H200",
        "B200",
    }
    assert {one.verdict for one in found} == {Verdict.FITS}


def test_vertex_ai_takes_one_call_and_none_of_computes_quotas(cloud, access):
    cloud.quota("NVIDIA_L4_GPUS", 0)
    cloud.quota("GPUS_ALL_REGIONS", 0)
    book = Reader(access(), Service.VERTEX).read()
    assert [one.method for one in cloud.requests] == [INFOS]
    assert standing(book, "L4").verdict is Verdict.FITS


@pytest.mark.parametrize("model", ["spot", "flex-start"])
@pytest.mark.parametrize(
    ("service", "metric"),
    [
        (Service.VERTEX, "aiplatform.googleapis.com/custom_model_training_preemptible_nvidia_l4_gpus"),
        (Service.COMPUTE, "PREEMPTIBLE_NVIDIA_L4_GPUS"),
    ],
)
def test_spot_and_flex_start_draw_on_the_preemptible_quotas(cloud, access, service, metric, model):
    cloud.quota(metric, 3)
    book = Reader(access(), service).read()
    assert standing(book, "L4", 4, model).verdict is Verdict.SHORT
    assert standing(book, "L4", 4, model).deciding.metric == metric
    assert standing(book, "L4", 4, "standard").verdict is Verdict.FITS


def test_the_need_is_the_gpus_of_all_nodes(cloud, reader):
    cloud.quota("NVIDIA_L4_GPUS", 8)
    book = reader.read()
    assert standing(book, "L4", 4, nodes=2).verdict is Verdict.FITS
    assert standing(book, "L4", 4, nodes=3).verdict is Verdict.SHORT
    assert standing(book, "L4", 4, nodes=3).deciding.need == 12


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


def test_the_whole_projects_quota_is_one_of_all_regions(cloud, reader):
    cloud.quota("GPUS_ALL_REGIONS", 4)
    found = standing(reader.read(), "L4", 8)
    assert found.verdict is Verdict.SHORT
    assert (found.deciding.metric, found.deciding.where) == ("GPUS_ALL_REGIONS", EVERYWHERE)
    assert found.deciding.where == EVERYWHERE


def test_n1_counts_its_cpus_and_others_do_not(cloud, reader):
    cloud.quota("CPUS", 4)
    book = reader.read()
    assert standing(book, "T4", 1, machine_type="n1-standard-8").deciding.metric == "CPUS"
    assert standing(book, "L4", 1).verdict is Verdict.FITS


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


def test_an_unlimited_quota_fits_whatever_is_asked(cloud, reader):
    cloud.quota("PREEMPTIBLE_NVIDIA_H200_GPUS", float("inf"))
    cloud.quota("GPUS_ALL_REGIONS", float("inf"))
    cloud.fail(PROJECT, server_error(), times=None)
    assert standing(reader.read(), "H200", 8, "spot", nodes=1000).verdict is Verdict.FITS


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
    table = str(quotas(reader.read(), Service.COMPUTE, gpus=(), regions=[REGION]))
    assert "regions.list says 64, Cloud Quotas says 2" in table


BROKEN = {
    "off": Refuse(error=ApiError(403, "It is off.", details=[{"reason": "SERVICE_DISABLED"}])),
    "forbidden": Refuse(error=ApiError(403, "Permission 'x.y' denied.", reason="forbidden")),
    "busy": Refuse(error=ApiError(429, "Slow down.", reason="rateLimitExceeded")),
    "down": server_error(503),
    "a proxy's page": bad_gateway(),
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
        book = Reader(access(), Service.COMPUTE).read()
    listed = quotas(book, Service.COMPUTE, regions=[REGION])
    assert Verdict.SHORT not in {one.verdict for one in listed}
    assert standing(book, "H100", 8).verdict is (Verdict.UNKNOWN if INFOS in methods else Verdict.FITS)
    if len(methods) == 3:
        found = standing(book, "L4")
        assert found.verdict is Verdict.UNKNOWN
        assert found.deciding.note
    else:
        assert standing(book, "L4").verdict is Verdict.FITS


def test_a_list_that_google_cuts_into_pages_is_read_to_its_end(cloud, reader):
    def short_page(document):
        return {"quotaInfos": document["quotaInfos"][:3], "nextPageToken": "3"}

    cloud.fail(INFOS, Reshape(change=short_page))
    book = reader.read()
    listed = quotas(book, Service.COMPUTE, regions=[REGION])
    assert {one.verdict for one in listed} == {Verdict.FITS}
    assert sum(one.method == INFOS for one in cloud.requests) == 2


def test_a_missing_region_is_unknown(cloud, reader):
    cloud.fail(REGIONS, partial_page())
    cloud.enable_api("cloudquotas", enabled=False)
    book = reader.read()
    assert standing(book, "L4", region="us-west4").verdict is Verdict.UNKNOWN
    assert standing(book, "L4", region="asia-east1").verdict is Verdict.FITS


def test_the_reason_and_the_remedy_are_said(cloud, reader):
    cloud.enable_api("cloudquotas", enabled=False)
    found = quotas(reader.read(), Service.COMPUTE, regions=[REGION])
    assert "Cloud Quotas: the API is switched off" in str(found)
    assert "gcloud services enable cloudquotas.googleapis.com" in str(found)


def test_a_permission_that_is_missing_is_named(cloud, access):
    caller = cloud.caller("me@example.com", ["compute.regions.list", "compute.projects.get"])
    book = Reader(access(credentials=cloud.credentials_of(caller)), Service.COMPUTE).read()
    assert "cloudquotas.quotas.get" in standing(book, "H100", 8).deciding.note
    assert standing(book, "L4").verdict is Verdict.FITS


def test_an_api_that_hangs_is_waited_for_but_a_moment_and_its_answer_is_kept(cloud, access):
    Reader(access(), Service.COMPUTE).read()  # loads what the first call of a process loads
    before = len(cloud.requests)
    slow = Reader(access(wait_s=2.5), Service.COMPUTE)
    cloud.fail(INFOS, Delay(seconds=5.0))
    assert standing(slow.read(), "H100", 8).verdict is Verdict.UNKNOWN
    assert standing(slow.read(), "L4").verdict is Verdict.FITS
    for thread in threading.enumerate():
        if thread.name.startswith("gputrain asks"):
            thread.join(10)
    assert standing(slow.read(), "H100", 8).verdict is Verdict.FITS
    assert sum(one.method == INFOS for one in list(cloud.requests)[before:]) == 1


def test_answers_are_good_for_a_minute(cloud, reader):
    first = reader.read()
    cloud.quota("NVIDIA_L4_GPUS", 0)
    cloud.clock.advance(55)
    assert reader.read() is first
    cloud.clock.advance(10)
    assert standing(reader.read(), "L4").verdict is Verdict.SHORT
    assert len(cloud.requests) == 6


def test_a_failure_is_forgotten_sooner(cloud, reader):
    cloud.enable_api("cloudquotas", enabled=False)
    reader.read()
    cloud.enable_api("cloudquotas")
    cloud.clock.advance(20)
    assert standing(reader.read(), "H100", 8).verdict is Verdict.FITS
    assert len(cloud.requests) == 4


def test_many_threads_share_one_flight(cloud, access):
    shared = access()
    start = threading.Barrier(16)
    verdicts = []

    def look():
        start.wait()
        verdicts.append(standing(Reader(shared, Service.COMPUTE).read(), "L4").verdict)

    threads = [threading.Thread(target=look) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts == [Verdict.FITS] * 16
    assert len(cloud.requests) == 3


def test_two_tenants_share_nothing(cloud, access):
    cloud.add_project("other-project")
    Reader(access(), Service.COMPUTE).read()
    Reader(access(), Service.COMPUTE).read()
    assert len(cloud.requests) == 6


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
