"""A cloud of one's own: project, bucket, quota, and a backend that waits by moving the emulator's clock."""

import json
import math
from dataclasses import replace

import pytest

from gputrain.backends.vertex import VertexAI
from gputrain.gcp import LABEL_GANG, LABEL_HOME, LABEL_JOB, Objects
from gputrain_emulator.vertex.endings import Ending
from gputrain_emulator.vertex.state import Vertex
from gputrain_emulator.vertex.states import Ask, Fate, State as Theirs
from tests.support.clouds import REGION, emulated
from tests.unit.records.values import ASK


@pytest.fixture
def cloud():
    with emulated() as running:
        yield running


@pytest.fixture
def vertex(cloud):
    """The emulated Vertex AI, to arrange fates, stock and quota."""
    return cloud.world.part(Vertex)


@pytest.fixture
def make(cloud):
    """Makes backends; waiting moves the emulator's clock."""

    def build(**settings):
        given = {
            "project": "my-project",
            "region": None if "regions" in settings else REGION,
            "bucket": "gs://my-bucket",
            "service_account": "train@my-project.iam.gserviceaccount.com",
            "endpoints": cloud.endpoints,
            "credentials": cloud.credentials,
            "sleep": cloud.clock.advance,
            "now": cloud.clock.now,
        }
        return VertexAI(**{**given, **settings})

    return build


@pytest.fixture(params=["rest", "grpc"])
def backend(make, request):
    return make(transport=request.param)


@pytest.fixture
def code(tmp_path):
    """A folder with a script in it."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print('hello')\n")
    return str(folder)


@pytest.fixture
def there(cloud, vertex):
    """Puts a custom job there as a look may find it: nobody submits it, and nothing befalls it by itself."""
    vertex.settings = replace(vertex.settings, error_delay_s=0.0)
    vertex.set_fate(Fate(run_s=math.inf))

    def put(
        state=Theirs.RUNNING, error="", *, region=REGION, job_id="bert-1", nonce=ASK.nonce, home="",
        regions=(), has_begun=False, order=None, **scheduling,
    ):  # fmt: skip
        labels = {LABEL_JOB: job_id, LABEL_GANG: nonce, **({LABEL_HOME: home} if home else {})}
        labels |= {f"gputrain-region-{number}": place for number, place in enumerate(regions)}
        if order is None:
            order = json.dumps({"bucket": "my-bucket", "lock": f"jobs/{job_id}/lock"})
        pools = [{"containerSpec": {"args": [order]}}, {"containerSpec": {"imageUri": "reduction-server"}}]
        spec = {"workerPoolSpecs": pools, "scheduling": {"disableRetries": True, **scheduling}}
        with cloud.world.lock:
            job = vertex.create(
                cloud.world.projects[cloud.project], region,
                {"displayName": job_id, "labels": labels, "jobSpec": spec},
                Ask(replicas=("workerpool0-0",)), caller=cloud.owner.email, needs=(), machines={},
            )  # fmt: skip
        if has_begun:
            vertex.put(job, Theirs.RUNNING)
        vertex.put(job, state, Ending(code=9, message=error) if error else None)
        return job

    return put


@pytest.fixture
def write_lock(make):
    """Writes what node 0 of a job's containers, or whatever runs in them, writes into the lock of its id."""
    objects = Objects(make()._access, "my-bucket")
    return lambda words, job_id="bert-1": objects.write(
        f"jobs/{job_id}/lock", words.encode(), if_generation=None
    )


@pytest.fixture
def asked(cloud):
    """Tells what Vertex AI was asked since this was called last: the number of the job that was looked at,
    or else the call, a list of what has changed as ``changes``."""
    told = 0

    def since():
        nonlocal told
        fresh, told = cloud.requests[told:], len(cloud.requests)
        return [_word(one) for one in fresh if one.method.startswith("aiplatform.")]

    return since


def _word(one):
    called = one.method.rpartition(".")[2]
    if called == "list":
        return "list" if "labels" in one.query["readMask"][0] else "changes"
    return called if called == "create" else one.path.rpartition("/")[2]
