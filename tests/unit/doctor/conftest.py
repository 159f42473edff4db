"""A cloud of one's own, callers with chosen permissions, and trainers that look at it."""

from importlib import import_module

import pytest

from gputrain import Trainer
from tests import present
from tests.support.clouds import REGION, emulated

ACCOUNT = "train@my-project.iam.gserviceaccount.com"
LOOKS = {
    "resourcemanager.projects.get",
    "serviceusage.services.get",
    "iam.serviceAccounts.get",
    "compute.networks.get",
    "compute.subnetworks.get",
    "compute.images.get",
    "compute.images.getFromFamily",
    "compute.routers.list",
    "compute.firewalls.list",
    "compute.projects.get",
    "compute.regions.list",
    "compute.machineTypes.list",
    "compute.acceleratorTypes.list",
    "cloudquotas.quotas.get",
    "artifactregistry.repositories.downloadArtifacts",
}
"""What planning and looking need; without one, something is unknown."""


def needs_of(kind):
    """The table of permissions of a backend."""
    return import_module(f"gputrain.backends.{kind}.preflight").NEEDS


def permissions_of(kind):
    """What is in it."""
    return {need.name for need in needs_of(kind)}


@pytest.fixture
def cloud():
    """The test fails if anything that was said departs from Google's published documents."""
    with emulated(is_judged=True) as running:
        yield running


@pytest.fixture
def backend_of(cloud):
    """Makes backends; ``permissions`` leaves the caller with just those."""

    def make(kind, permissions=None, **settings):
        caller = cloud.caller(f"{kind}@example.com", permissions)
        given = {
            "project": "my-project",
            "regions": [REGION],
            "bucket": "gs://my-bucket",
            "service_account": ACCOUNT,
            "endpoints": cloud.endpoints,
            "credentials": cloud.credentials_of(caller),
            "sleep": cloud.clock.advance,
            "now": cloud.clock.now,
        }
        return present.backend(kind)(**{**given, **settings})

    return make


@pytest.fixture
def doctor(backend_of):
    """Looks, for one backend; fields make a spec."""

    def look(kind, *, spec=None, permissions=None, **settings):
        return Trainer(backend_of(kind, permissions, **settings)).doctor(**spec or {})

    return look
