"""The least roles that docs/howto/vertex.md grants are enough, and none of them is too many."""

import re
from pathlib import Path

import pytest

from gputrain.errors import PermissionDeniedError
from gputrain.trainer import Trainer

PAGE = (Path(__file__).parents[3] / "docs" / "howto" / "vertex.md").read_text()
ROLE = re.search(r"roles create gputrainSubmitter .*?--permissions \\\n((?:.*\\\n)*.*)\n", PAGE)[1]
SUBMITTER = frozenset(re.sub(r"\\\n", "", ROLE).split(","))
OBJECT_USER = {f"storage.objects.{verb}" for verb in ("create", "delete", "get", "list", "update")}
"""What roles/storage.objectUser holds of objects. Source: Cloud Storage's roles, by general knowledge."""


def live_a_job(make, cloud, vertex, code, permissions):
    """Plan, submit, watch, read logs, list, and cancel with just these permissions."""
    person = cloud.caller("you@example.com", permissions | OBJECT_USER | {"iam.serviceAccounts.actAs"})
    trainer = Trainer(make(credentials=cloud.credentials_of(person)))
    job = trainer.submit("train.py", source_dir=code, gpu="L4:2", idempotency_key="k")
    cloud.clock.advance(200)
    job.refresh()
    list(job.logs())
    assert [one.uri for one in trainer.jobs()] == [job.uri]
    job.cancel()
    cloud.clock.advance(200)
    assert job.refresh().state.value == "cancelled"
    list(job.logs())


def test_the_roles_of_the_page_are_enough(make, cloud, vertex, code):
    live_a_job(make, cloud, vertex, code, SUBMITTER)


@pytest.mark.parametrize("spared", sorted(SUBMITTER - {"cloudquotas.quotas.get"}))
def test_each_permission_of_the_page_is_needed_and_named(make, cloud, vertex, code, spared):
    with pytest.raises(PermissionDeniedError) as caught:
        live_a_job(make, cloud, vertex, code, SUBMITTER - {spared})
    assert spared in f"{caught.value} {caught.value.fix}"


def test_without_a_look_at_quotas_everything_else_works(make, cloud, vertex, code):
    live_a_job(make, cloud, vertex, code, SUBMITTER - {"cloudquotas.quotas.get"})
