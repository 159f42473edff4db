"""A list that lacks a backend names it, and the command does not end as if all had been seen."""


def test_a_backend_whose_jobs_cannot_be_listed_is_named(cloud, read):
    cloud.fail("storage.objects.list", "C26", times=None)
    status, document = read("jobs", "--backend", "compute", "--backend", "local")
    assert (status, [one.partition(":")[0] for one in document["left_out"]]) == (0, ["compute"])


def test_machines_that_cannot_be_listed_are_no_clean_project(cloud, read):
    cloud.fail("compute.instances.aggregatedList", "C26", times=None)
    status, document = read("clean-up", "--yes")
    assert (status, document["error"]["type"]) == (3, "PermissionDeniedError")


def test_quotas_that_cannot_be_read_end_with_5(cloud, run):
    for method in ("compute.regions.list", "compute.projects.get", "cloudquotas.quotaInfos.list"):
        cloud.fail(method, "C26", times=None)
    assert run("quotas", "--gpu", "L4:1")[0] == 5
