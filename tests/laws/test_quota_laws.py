"""Quotas against oracles: the emulator, which enforces them, and a search over every row there is."""

import itertools

import pytest
from hypothesis import strategies as st

import gputrain_emulator
from gputrain.catalog import ProvisioningModel, Service, shapes
from gputrain.google import GoogleClient
from gputrain.quota import Verdict
from gputrain.quota.reader import QuotaReader
from gputrain_emulator import facts
from gputrain_emulator.compute import reserve
from gputrain_emulator.quotas import DEFAULTS, GLOBAL, GLOBAL_METRICS, Key, Quotas, vm_needs
from gputrain_emulator.vertex import offers
from tests.laws.drawn import drawn

REGIONS = ("us-central1", "europe-west4", "asia-southeast1")
ELSEWHERE = "europe-west1"
DISK_GIB = 4
FAMILIES = sorted({one.gpu_family for one in facts.gpu_quotas().values() if one.gpu_family})
COMPUTE = sorted(
    {one.regional_metric for one in facts.gpu_quotas().values()}
    | {one.preemptible_metric for one in facts.gpu_quotas().values()}
    | {"CPUS", "PREEMPTIBLE_CPUS", "GPUS_ALL_REGIONS", "CPUS_ALL_REGIONS", "GPUS_PER_GPU_FAMILY"}
    | set(reserve.METRICS.values()) - {""}
)
VERTEX = sorted(
    {one.vertex_metric for one in facts.gpu_quotas().values()}
    | {one.vertex_preemptible_metric for one in facts.gpu_quotas().values()}
    | {offers.cpu_metric(*sold) for sold in (("n1-", "STANDARD"), ("a2-", "STANDARD"), ("n1-", "SPOT"))}
    - {""}
)
TOLD_WITH_USAGE = {name for name in COMPUTE if name in DEFAULTS} | {
    name
    for one in facts.gpu_quotas().values()
    for name in (one.regional_metric, one.preemptible_metric if one.preemptible_in_regions_get else "")
}
FIGURES = st.sampled_from([0, 1, 2, 4, 8, 16, 64, 1000, float("inf")])
JOBS = [
    (shape, model)
    for service in Service
    for shape in shapes(service=service)
    if isinstance(shape.gpu_count, int) and shape.gpu.accelerator_type in facts.gpu_quotas()
    for model in shape.sold_as(service)
    if model is not ProvisioningModel.RESERVATION_BOUND
]

project_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cloud():
    with gputrain_emulator.start() as running:
        yield running


@st.composite
def grants(draw, metrics):
    """Limits and usage of some metrics in some places, of families too."""
    limits, used = {}, {}
    for _ in range(draw(st.integers(0, 12))):
        metric = draw(st.sampled_from(metrics))
        is_family = metric == "GPUS_PER_GPU_FAMILY"
        family = draw(st.sampled_from(["", *FAMILIES])) if is_family else ""
        region = GLOBAL if metric in GLOBAL_METRICS else draw(st.sampled_from(["*", *REGIONS]))
        limits[metric, region, family] = draw(FIGURES)
        if region != "*" and (family or not is_family):
            used[metric, region, family] = draw(st.sampled_from([0, 1, 3, 8]))
    return limits, used


@st.composite
def worlds(draw):
    """A service, what is granted and used, what cannot be read, and the jobs to look at."""
    service = draw(st.sampled_from(list(Service)))
    jobs = [(shape, model) for shape, model in JOBS if model in shape.sold_as(service)]
    asked = st.tuples(
        st.sampled_from(jobs), st.sampled_from([1, 2, 5]), st.sampled_from([*REGIONS, ELSEWHERE])
    )
    broken = draw(st.sets(st.sampled_from(["compute", "cloudquotas"]), max_size=1))
    looks = draw(st.lists(asked, min_size=4, max_size=12))
    return service, draw(grants(COMPUTE if service is Service.COMPUTE else VERTEX)), broken, looks


def needs_of(project, service, shape, model, nodes, region):
    """What the emulator charges for the job, by its own tables."""
    names = facts.gpu_quotas()[shape.gpu.accelerator_type]
    word = model.value.upper().replace("-", "_")
    if service is Service.VERTEX:
        is_standard = model is ProvisioningModel.STANDARD
        metric = names.vertex_metric if is_standard else names.vertex_preemptible_metric
        charges = {
            metric: shape.api_gpu_count,
            offers.cpu_metric(shape.machine_type, word): offers.vcpus(shape.machine_type),
        }
        return [(Key(project=project, metric=one, region=region), need * nodes)
                for one, need in charges.items() if one]  # fmt: skip
    machine = facts.machines()[shape.machine_type]
    one = vm_needs(project, region, machine, shape.gpu.accelerator_type, shape.api_gpu_count, word)
    disk = Key(project=project, metric=reserve.METRICS[shape.machine.boot_disk_types[0]], region=region)
    return [(key, need * nodes) for key, need in (*one, (disk, DISK_GIB))]


@drawn(25, 300, world=worlds())
def test_a_verdict_is_what_the_cloud_would_do(cloud, world):
    service, (limits, used), broken, looks = world
    project = f"law-project-{next(project_numbers)}"
    cloud.add_project(project)
    book = cloud.world.part(Quotas)
    for (metric, region, family), limit in limits.items():
        book.set_limit(Key(project=project, metric=metric, region=region, family=family), limit)
    book.take(
        (Key(project=project, metric=metric, region=region, family=family), amount)
        for (metric, region, family), amount in used.items()
    )
    for api in broken:
        cloud.enable_api(api, enabled=False, project=project)
    access = GoogleClient(project=project, credentials=cloud.credentials, endpoints=cloud.endpoints)
    told = QuotaReader(client=access, service=service, disk_gib=DISK_GIB).read()
    with_usage = set() if "compute" in broken else TOLD_WITH_USAGE
    for (shape, model), nodes, region in looks:
        needs = needs_of(project, service, shape, model, nodes, region)
        refused = book.exceeded(needs)
        verdict = told.status(shape, nodes, model, region).verdict
        seen = book.exceeded(
            [(key, need - (0 if key.metric in with_usage else book.usage(key))) for key, need in needs]
        )
        if verdict is Verdict.SHORT:
            assert refused
        elif verdict is Verdict.FITS:
            assert not seen, "only usage that nobody tells may be overlooked"
        else:
            no_preemptible = any(key.metric == "PREEMPTIBLE_CPUS" and not book.limit(key) for key, _ in needs)
            assert broken or no_preemptible
