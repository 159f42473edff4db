"""Whatever the APIs answer, a plan comes: facts for every candidate, and a reason for every unknown."""

import copy

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import gputrain_emulator
from gputrain import ComputeEngine
from gputrain.planning import candidates
from gputrain.quota import Verdict
from gputrain.spec import TrainingSpec
from gputrain_emulator.faults import Reshape

METHODS = (
    "compute.regions.list",
    "compute.projects.get",
    "cloudquotas.quotaInfos.list",
    "compute.machineTypes.aggregatedList",
    "compute.acceleratorTypes.aggregatedList",
    "compute.reservations.aggregatedList",
    "compute.advice.capacity",
)
REGION = "us-central1"

leaves = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3)
garbage = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
)
steps = st.lists(st.integers(0, 1 << 16), min_size=1, max_size=7)


def garbled(document, way, put):
    """The document with the node at the end of a way replaced."""
    document = copy.deepcopy(document)
    parent, key, node = None, None, document
    for step in way:
        keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        if not keys:
            break
        parent, key = node, keys[step % len(keys)]
        node = parent[key]
    if parent is not None:
        parent[key] = put
    return document


@pytest.fixture(scope="module")
def cloud():
    with gputrain_emulator.start() as running:
        yield running


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(faults=st.lists(st.tuples(st.sampled_from(METHODS), steps, garbage), min_size=1, max_size=4))
def test_a_plan_comes_whatever_is_answered(cloud, faults):
    cloud.world.faults.clear()
    for method, way, put in faults:
        cloud.fail(method, Reshape(change=lambda doc, way=way, put=put: garbled(doc, way, put)), times=None)
    backend = ComputeEngine(
        cloud.project, regions=[REGION], bucket="gs://my-bucket",
        endpoints=cloud.endpoints, credentials=cloud.credentials, sleep=lambda _: None,
    )  # fmt: skip
    spec = TrainingSpec(
        script="train.py", gpu=["H100:8", "T4:1"], provisioning_model=["standard", "spot"], reservation="mine"
    )
    wanted = candidates(spec, [backend.supply]).candidates
    told = backend.availability(wanted)
    assert set(told) == set(wanted)
    for fact in told.values():
        unknown = [one for one in fact.readings if one.verdict is Verdict.UNKNOWN]
        assert all(one.note or any(other.metric == one.metric for other in fact.readings) for one in unknown)
    backend.quotas()
