"""A cloud of one's own: project, bucket, quota, and a backend that waits by moving the emulator's clock."""

import math
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from gputrain import Trainer
from gputrain.backends.vertex import VertexAI
from gputrain.google import LABEL_ATTEMPT, LABEL_JOB, LABEL_OWNER, Objects
from gputrain_emulator.vertex.state import Vertex
from gputrain_emulator.vertex.states import Ending, Fate, State as Theirs
from tests.support.clouds import REGION, settings
from tests.unit.vertex.runs import Runs


@pytest.fixture
def vertex(cloud):
    """The emulated Vertex AI, to arrange fates, stock and quota."""
    return cloud.world.part(Vertex)


@pytest.fixture
def make(cloud):
    """Makes backends; waiting moves the emulator's clock."""

    def build(**own):
        where = {} if {"region", "regions"} & set(own) else {"region": REGION}
        account = "train@my-project.iam.gserviceaccount.com"
        return VertexAI(**settings(cloud, **{"service_account": account, **where, **own}))

    return build


@pytest.fixture
def backend(make):
    return make()


@pytest.fixture
def trainer(make, cloud):
    """Makes trainers, as processes of their own have them."""
    now = lambda: datetime.fromtimestamp(cloud.clock.now(), timezone.utc)  # noqa: E731
    return lambda **settings: Trainer(make(**settings), now=now, sleep=cloud.clock.advance)


@pytest.fixture
def submit(trainer, code):
    """Submits a job under the key ``k``, from a process of its own or through the trainer given."""

    def build(through=None, **fields):
        fields = {"source_dir": code, "gpu": "L4:2", "idempotency_key": "k", **fields}
        return (through or trainer()).submit("train.py", **fields)

    return build


@pytest.fixture
def made(vertex):
    """All custom jobs, the first that was made first."""
    return lambda: sorted(vertex.jobs.values(), key=lambda one: one.serial)


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

    def put(state=Theirs.RUNNING, error="", *, job_id="bert-1", home="", attempt="a0000000", has_begun=False):
        labels = {LABEL_JOB: job_id, LABEL_ATTEMPT: attempt, LABEL_OWNER: home}
        spec = {"workerPoolSpecs": [{"replicaCount": "1", "containerSpec": {"args": ["{}"]}}]}
        with cloud.world.lock:
            job = vertex.create(
                cloud.world.projects[cloud.project], REGION,
                {"displayName": job_id, "labels": labels, "jobSpec": spec}, caller=cloud.owner.email,
            )  # fmt: skip
        if has_begun:
            vertex.put(job, Theirs.RUNNING)
        vertex.put(job, state, Ending(code=9, message=error) if error else None)
        return job

    return put


@pytest.fixture
def runs(make, cloud, code):
    """Makes processes: each has a backend of its own."""
    return lambda **settings: Runs(make(**settings), code, cloud.clock.now, cloud.clock.advance)


@pytest.fixture
def forever(vertex):
    """Jobs run until something happens to them."""
    vertex.set_fate(Fate(run_s=math.inf))


@pytest.fixture
def claim(make):
    """Writes the claim of an attempt, as node 0 of the job does that trains."""

    def write(job, content=None):
        labels = job.document["labels"]
        name = f"jobs/{labels['gputrain-job']}/{labels['gputrain-attempt']}/claim"
        objects = Objects(make()._access, "my-bucket")
        objects.write(name, (content or job.id).encode(), if_generation=None)

    return write
