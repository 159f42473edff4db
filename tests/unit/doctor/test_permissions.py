"""The tables of permissions: enough for all that a backend does, and nothing in them that is not needed."""

import re
from datetime import datetime, timezone
from pathlib import Path

import pytest

from gputrain import GputrainError, NoPlacementError, PermissionDeniedError, Trainer
from gputrain.doctor.google import On
from tests import present
from tests.each import each
from tests.unit.doctor import permissions_page
from tests.unit.doctor.conftest import ACCOUNT, LOOKS, needs_of, permissions_of

EVERY = [(kind, permission) for kind in present.CLOUDS for permission in sorted(permissions_of(kind))]
SPARE = {
    ("vertex", "aiplatform.customJobs.get"),  # only where a job ends in the moment that it is cancelled
    ("compute", "compute.zoneOperations.get"),  # only for why VMs could not be made
    ("compute", "compute.zoneOperations.list"),  # only once VMs are gone for minutes, for why
}
"""Needed in moments that the story below does not come to."""


def trainer_of(cloud, backend):
    now = lambda: datetime.fromtimestamp(cloud.clock.now(), timezone.utc)  # noqa: E731
    return Trainer(backend, now=now, sleep=cloud.clock.advance)


def submitted(trainer, code, **fields):
    """A job; what its place answered is raised as it is."""
    try:
        return trainer.submit(code, gpu="L4:1", max_run_duration="1h", **fields)
    except NoPlacementError as error:
        raise error.__cause__ or error from None


def look(job):
    """A look at a job; why it cannot be seen is raised."""
    seen = job.refresh()
    if seen.state is None:
        raise PermissionDeniedError(seen.detail)


def story(cloud, backend, code):
    """What people do with a backend, from the first submit to the cleaning up."""
    trainer = trainer_of(cloud, backend)
    job = submitted(trainer, code, provisioning_model="spot", max_restarts=1)
    look(job)
    list(job.logs())
    assert [one.uri for one in trainer.jobs()] == [job.uri]
    if backend.name == "compute":
        cloud.clock.advance(60)
        cloud.preempt(job.machines[0])
        cloud.clock.advance(300)
        look(job)
        assert job.supervise()
    job.cancel()
    if backend.name == "compute":
        trainer.clean_up()
    else:  # that it waits for room is written into its record
        cloud.clock.advance(200)
        cloud.vertex.set_stock("g2-standard-4", 0, region="us-central1")
        full = submitted(trainer, code, provisioning_model="standard", max_wait_duration="6h")
        cloud.clock.advance(1000)
        look(full)
        full.supervise()
        job.refresh()
        list(job.logs())


@pytest.mark.parametrize("kind", present.CLOUDS)
def test_the_table_holds_all_that_a_backend_needs(cloud, backend_of, code, kind):
    story(cloud, backend_of(kind, permissions_of(kind)), code)


@pytest.mark.parametrize(("kind", "missing"), [one for one in EVERY if one not in SPARE])
def test_the_table_holds_nothing_that_is_not_needed(cloud, backend_of, code, kind, missing):
    with pytest.raises(PermissionDeniedError) as caught:
        story(cloud, backend_of(kind, permissions_of(kind) - {missing}), code)
    assert missing in f"{caught.value} {caught.value.permission}"
    assert living(cloud) <= {job.id for job in Trainer(backend_of(kind)).jobs()}


QUEUED = sorted(
    {one.name for kind in present.CLOUDS for one in permissions_page.table(kind) if "flex" in one.only_with}
)


def queue(cloud, backend, code):
    """A job of two VMs that waits, is cancelled and cleaned up."""
    trainer = trainer_of(cloud, backend)
    job = submitted(trainer, code, num_nodes=2, provisioning_model="flex-start", machine_type="g2-standard-4")
    cloud.clock.advance(60)
    look(job)
    job.cancel()
    cloud.clock.advance(300)
    trainer.clean_up()


def test_a_queued_gang_needs_what_the_table_says(cloud, backend_of, code):
    cloud.stock("us-central1-a", "g2-standard-4", 0)
    queue(cloud, backend_of("compute", permissions_of("compute") | set(QUEUED)), code)
    assert not cloud.compute.resources["instanceTemplates"]


@pytest.mark.parametrize("missing", QUEUED)
def test_a_queued_gang_needs_all_of_it(cloud, backend_of, code, missing):
    cloud.stock("us-central1-a", "g2-standard-4", 0)
    with pytest.raises(GputrainError) as caught:
        queue(cloud, backend_of("compute", (permissions_of("compute") | set(QUEUED)) - {missing}), code)
    assert missing in f"{caught.value} {caught.value.__cause__}"
    assert not cloud.compute.vms


GOING = ("JOB_STATE_QUEUED", "JOB_STATE_PENDING", "JOB_STATE_RUNNING")


def living(cloud):
    """The jobs of what bills."""
    vms = {vm.resource["labels"]["gputrain-job"] for vm in cloud.compute.vms.values()}
    return vms | {
        job.document["labels"]["gputrain-job"]
        for job in cloud.vertex.jobs.values()
        if job.state.value in GOING
    }


def test_the_page_is_written_from_the_tables():
    assert permissions_page.PAGE.read_text() == permissions_page.written()


@each(("kind", "missing"), EVERY)
def test_each_missing_permission_is_one_fault_with_the_command_that_grants_it(doctor, kind, missing):
    checks = doctor(kind, permissions=(permissions_of(kind) | LOOKS) - {missing})
    (fault,) = checks.faults
    assert fault.subject == missing
    assert "it is needed to" in fault.why
    granted_on = {
        "storage.objects": "storage buckets add-iam-policy-binding gs://my-bucket",
        "iam.serviceAccounts": f"iam service-accounts add-iam-policy-binding {ACCOUNT} --project my-project",
    }
    command = granted_on.get(missing.rpartition(".")[0], "projects add-iam-policy-binding my-project")
    assert fault.fix.startswith(f"gcloud {command} --member user:YOU --role roles/")


@pytest.mark.parametrize(
    ("spec", "is_queued"),
    [
        ({"num_nodes": 2, "provisioning_model": "flex-start"}, True),
        ({"num_nodes": 1, "provisioning_model": "flex-start"}, False),
        ({"num_nodes": 2, "provisioning_model": "spot"}, False),
    ],
)
def test_only_a_gang_in_the_queue_needs_the_permissions_of_queues(doctor, code, spec, is_queued):
    spec = {"entry": code, "gpu": "L4:1", **spec}
    checks = doctor("compute", permissions=permissions_of("compute") | LOOKS, spec=spec)
    assert {fault.subject for fault in checks.faults} == (set(QUEUED) if is_queued else set())


BESIDE = {
    "compute.subnetworks.get",
    "compute.routers.list",
    "cloudquotas.quotas.get",
    "compute.disks.setLabels",
}
"""What a plan reads where it may; Google asks for the last where a new disk has labels."""


@pytest.mark.parametrize("kind", present.CLOUDS)
def test_the_least_role_on_the_page_holds_what_the_table_asks_of_a_project(kind):
    page = (Path(__file__).parents[3] / "docs" / "howto" / f"{kind}.md").read_text()
    named = re.search(
        r"roles create gputrain(?:Compute|Submitter) .*? --permissions \\\n((?:.*,\\\n)*.*)\n", page
    )
    told = set(re.sub(r"[\\\s]", "", named[1]).split(","))
    needed = {need.name for need in needs_of(kind) if need.on is On.PROJECT}
    assert needed <= told <= needed | BESIDE
