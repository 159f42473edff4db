"""A list that lacks a backend names it, and the command does not end as if all had been seen."""

import json


def test_a_backend_whose_jobs_cannot_be_listed_is_named(cloud, run):
    cloud.fail("storage.objects.list", "C26", times=None)
    status, out, err = run("jobs", "--backend", "compute", "--backend", "local", "--json")
    assert (status, [one[:15] for one in json.loads(out)["left_out"]]) == (0, ["gs://my-bucket/"])
    assert err.startswith("left out of the list of jobs: gs://my-bucket/: ")


def test_machines_that_cannot_be_listed_are_no_clean_project(cloud, read):
    cloud.fail("compute.instances.aggregatedList", "C26", times=None)
    status, document = read("clean-up", "--yes")
    assert (status, document["error"]["type"]) == (3, "PermissionDeniedError")


def test_quotas_that_cannot_be_read_end_with_5(cloud, run):
    for method in ("compute.regions.list", "compute.projects.get", "cloudquotas.quotaInfos.list"):
        cloud.fail(method, "C26", times=None)
    assert run("quotas", "--gpu", "L4:1")[0] == 5
