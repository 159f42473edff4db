"""The tables of permissions: enough for all that a backend does, and nothing in them that is not needed."""

import re
from pathlib import Path

import pytest

from gputrain import GputrainError, PermissionDeniedError, Trainer
from gputrain.preflight.project import On
from gputrain.spec import TrainingSpec
from gputrain_emulator.compute import images
from tests import present
from tests.each import each
from tests.unit.preflight import permissions_page
from tests.unit.preflight.conftest import ACCOUNT, LOOKS, needs_of, permissions_of
from tests.unit.steps import Steps, supervised

EVERY = [(kind, permission) for kind in present.CLOUDS for permission in sorted(permissions_of(kind))]
SPARE = {
    ("vertex", "aiplatform.customJobs.get"),  # only where a job ends in the moment that it is cancelled
    ("compute", "compute.zoneOperations.get"),  # only for why VMs could not be made
    ("compute", "compute.zoneOperations.list"),  # only once VMs are gone for minutes, for why
}
"""Needed in moments that the story below does not come to."""


def story(cloud, backend, code):
    """What people do with a backend, from the first submit to the cleaning up."""
    road = Steps(backend)
    spec = TrainingSpec(script=code, gpu="L4:1", provisioning_model="spot", max_run_duration="1h")
    ref = road.submit(spec, job_id="bert-1")
    backend.observe(ref)
    backend.logs(ref)
    assert backend.find() == (ref,)
    if backend.name == "compute":
        cloud.clock.advance(60)
        cloud.serial("bert-1-0-0", "hello\n")
        backend.logs(ref)
        cloud.preempt("bert-1-0-0")
        cloud.clock.advance(120)
        backend.observe(ref)
        supervised(backend, ref)
    backend.cancel(ref)
    if backend.name == "compute":
        backend.clean_up()
    else:  # that it waits for room is written into its record
        cloud.clock.advance(200)
        cloud.vertex.set_stock("g2-standard-4", 0, region="us-central1")
        full = road.submit(
            spec.replace(provisioning_model="standard", max_wait_duration="6h"), job_id="full-1"
        )
        cloud.clock.advance(1000)
        supervised(backend, full)


@pytest.mark.parametrize("kind", present.CLOUDS)
def test_the_table_holds_all_that_a_backend_needs(cloud, backend_of, code, kind):
    story(cloud, backend_of(kind, permissions_of(kind)), code)


@pytest.mark.parametrize(("kind", "missing"), [one for one in EVERY if one not in SPARE])
def test_the_table_holds_nothing_that_is_not_needed(cloud, backend_of, code, kind, missing):
    with pytest.raises(PermissionDeniedError) as caught:
        story(cloud, backend_of(kind, permissions_of(kind) - {missing}), code)
    assert missing in f"{caught.value} {caught.value.permission}"
    assert living(cloud) <= {job.ref.name for job in Trainer(backend_of(kind)).jobs()}


QUEUED = sorted(
    {
        one.permission
        for kind in present.CLOUDS
        for one in permissions_page.table(kind)
        if "flex" in one.only_with
    }
)


def queue(cloud, backend, code):
    """A gang that waits, is taken back, runs, and ends."""
    road = Steps(backend)
    spec = TrainingSpec(script=code, gpu="L4:1", num_nodes=2, provisioning_model="flex-start")
    ref = road.submit(spec.replace(machine_type="g2-standard-4"), job_id="bert-1")
    cloud.clock.advance(60)
    backend.observe(ref)
    backend.cancel(ref)
    cloud.clock.advance(300)
    backend.clean_up()


def test_a_queued_gang_needs_what_the_table_says(cloud, backend_of, code):
    present.backend("compute")
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
        job.document["displayName"] for job in cloud.vertex.jobs.values() if job.life.state.value in GOING
    }


@pytest.mark.skipif(bool(present.ABSENT), reason="the page tells of every backend")
def test_the_page_is_written_from_the_tables():
    assert permissions_page.PAGE.read_text() == permissions_page.written()


@pytest.mark.parametrize("kind", present.CLOUDS)
def test_the_role_file_is_what_gcloud_reads_and_holds_the_table(kind):
    told = permissions_page.role_file(needs_of(kind), "gputrain").splitlines()
    assert told[:3] == ["title: gputrain", "stage: GA", "includedPermissions:"]
    of_project = {need.permission for need in needs_of(kind) if need.on is On.PROJECT}
    assert {line.removeprefix("- ") for line in told[3:]} == of_project


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


@pytest.mark.parametrize("kind", present.CLOUDS)
def test_a_caller_without_any_permission_reads_all_of_them_in_one_report(doctor, kind):
    checks = doctor(kind, permissions=set())
    assert {fault.subject for fault in checks.faults} == permissions_of(kind)


@pytest.mark.parametrize(
    ("settings", "more"),
    [
        ({"network_tags": ["ssh"]}, "compute.instances.setTags"),
        ({"external_ip": True}, "compute.subnetworks.useExternalIp"),
        ({"image_family": "my-project/mine"}, "compute.images.useReadOnly"),
    ],
)
def test_settings_ask_for_the_permissions_that_they_need(cloud, doctor, settings, more):
    images.add_image(cloud.compute, "my-project", "mine-1", "mine", 20)
    checks = doctor("compute", permissions=permissions_of("compute") | LOOKS, **settings)
    assert [fault.subject for fault in checks.faults] == [more]
    assert doctor("compute", permissions=permissions_of("compute") | LOOKS).is_ok


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


@each("missing", sorted(LOOKS - {"artifactregistry.repositories.downloadArtifacts"}))
def test_what_may_not_be_looked_at_is_unknown_and_no_fault(doctor, missing):
    checks = doctor("compute", permissions=(permissions_of("compute") | LOOKS) - {missing})
    assert checks.is_ok
    assert all(missing in f"{one.subject} {one.why}" for one in checks.unknowns)


def test_a_service_account_is_called_by_its_name_in_the_commands(cloud, backend_of):
    from google.oauth2 import service_account

    class Robot(service_account.Credentials):
        """A key's credentials with a token from our cloud: nothing is signed here."""

        def __init__(self, token):
            super().__init__(None, "robot@my-project.iam.gserviceaccount.com", "uri")
            self.token = token

        @property
        def valid(self):
            return True

        def with_scopes(self, *_, **__):
            return self

    token = cloud.world.callers.issue(cloud.caller("robot@my-project.iam.gserviceaccount.com", set()))
    checks = backend_of("vertex", credentials=Robot(token)).preflight(None, (), "")
    member = "--member serviceAccount:robot@my-project.iam.gserviceaccount.com"
    assert checks.faults
    assert all(member in fault.fix for fault in checks.faults)


@pytest.mark.parametrize("kind", present.CLOUDS)
def test_the_least_role_on_the_page_holds_what_the_table_asks_of_a_project(kind):
    page = (Path(__file__).parents[3] / "docs" / "howto" / f"{kind}.md").read_text()
    named = re.search(
        r"roles create gputrain(?:Gang|Submitter) .*? --permissions \\\n((?:.*,\\\n)*.*)\n", page
    )
    told = set(re.sub(r"[\\\s]", "", named[1]).split(","))
    assert {need.permission for need in needs_of(kind) if need.on is On.PROJECT} <= told
