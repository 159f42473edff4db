"""Every command, for people and as JSON, on this machine and against the emulator."""

import importlib
import io
import json
import re
import sys
import tarfile
from pathlib import Path

import pytest

from gputrain import SpecError, Trainer, VertexAI
from gputrain.cli import main
from gputrain.cli.commands import gputrain
from gputrain.google import GoogleClient, Objects
from gputrain.google.endpoints import asked_for
from tests.each import each

ROOT = Path(__file__).parents[3]
SPEC = ("train.py", "--gpu", "L4:2")


def test_the_program_that_is_installed_is_this_one():
    (home,) = re.findall(r'^gputrain = "([\w.]+):main"$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert importlib.import_module(home).main is main


def test_gpus_are_listed_and_found_by_any_name(run, read):
    status, out, _ = run("gpus")
    assert status == 0
    assert "H100-MEGA" in out
    _, document = read("gpus", "nvidia-h100-80gb:2")
    assert [(one["gpu"], one["gpu_count"], one["machine_type"]) for one in document["shapes"]] == [
        ("H100", 2.0, "a3-highgpu-2g")
    ]
    _, document = read("gpus", "--region", "us-central1")
    assert {"L4", "H100"} <= {one["gpu"] for one in document["shapes"]}


def test_the_catalog_is_refreshed_from_the_lists_of_a_cloud(cloud, run, read, folder):
    place = ("--endpoint", cloud.endpoints.url, "--project", cloud.project, "--folder", "own")
    status, document = read("catalog", "refresh", "--dry-run", *place)
    assert (status, document["is_written"]) == (0, False)
    assert not (folder / "own").exists()
    status, out, _ = run("catalog", "refresh", *place)
    assert (status, out.splitlines()[0][:10]) == (0, "Catalog of")
    assert sorted(file.name for file in (folder / "own").iterdir()) == ["places.csv", "prices.csv"]


def test_a_plan_is_shown_and_nothing_is_made(cloud, run, read, script):
    script()
    status, out, _ = run("plan", *SPEC)
    assert (status, out.splitlines()[0]) == (0, "Plan for train.py")
    _, document = read("plan", *SPEC, "--provisioning-model", "spot", "--num-nodes", "2")
    best = document["candidates"][0]
    assert (best["provisioning_model"], best["num_nodes"], best["quota"]) == ("spot", 2, "fits")
    assert "would run on" in run("plan", *SPEC, "--explain")[1]
    assert cloud.compute.vms == {}


def test_quotas_are_read(cloud, read):
    status, document = read("quotas", "--gpu", "H100:8", "--num-nodes", "2", "--provisioning-model", "spot")
    assert status == 0
    ((quota),) = document["quotas"]
    assert (quota["gpu"], quota["need"], quota["verdict"]) == ("H100", 16, "fits")


def test_doctor_exits_0_where_all_is_well_and_3_with_the_fix_where_not(cloud, run, read):
    assert read("doctor")[1]["is_ok"] is True
    status, out, _ = run("doctor", "--bucket", "gs://gone")
    assert status == 3
    made = "  gcloud storage buckets create gs://gone --project my-project --location us-central1"
    assert made in out.splitlines()
    assert read("doctor", "--bucket", "gs://gone")[1]["is_ok"] is False


def test_a_job_is_submitted_listed_and_cancelled(cloud, run, read, script):
    script()
    status, job = read("submit", *SPEC, "--detach", "--name", "bert", "--", "--lr", "3e-4")
    assert (status, job["state"], job["attempts"][-1]["answer"]) == (0, "queued", "accepted")
    _, listed = read("jobs", "--name", "bert")
    assert [one["uri"] for one in listed["jobs"]] == [job["uri"]]
    assert job["name"] in run("jobs")[1]
    status, _, err = run("cancel", "")  # of a variable that is not set
    assert (status, "there is no job ''" in err) == (2, True)
    assert read("cancel", job["name"])[1]["uri"] == job["uri"]
    cloud.clock.advance(300)
    assert read("jobs")[1]["jobs"][0]["state"] == "cancelled"
    assert any(b"3e-4" in seen.body for seen in cloud.requests)


def test_the_same_key_gives_the_same_job(cloud, read, script):
    script()
    words = ("submit", *SPEC, "--detach", "--idempotency-key", "monday")
    assert read(*words)[1]["uri"] == read(*words)[1]["uri"]


def test_what_no_job_needs_is_shown_and_removed_once_that_is_said(cloud, run, read, script):
    script()
    read("submit", *SPEC, "--detach")
    (vm,) = cloud.compute.vms.values()
    cloud.power_off(vm.name)
    cloud.clock.advance(300)
    _, would = read("clean-up")
    assert (would["removed"], [one["name"] for one in would["orphans"]]) == (False, [vm.name])
    status, out, err = run("clean-up")
    assert (status, "--yes" in err) == (0, True)
    assert "Would be removed" in out
    assert vm.name in run("clean-up", "--yes")[1]
    cloud.clock.advance(300)
    told = {"removed": True, "backends": ["compute"], "left_out": [], "orphans": []}
    assert read("clean-up", "--yes")[1] == told


def test_lists_say_which_backends_were_looked_at_and_which_were_not(cloud, run):
    for words in (["jobs"], ["clean-up", "--yes"]):
        assert "backends: local; not included: --backend compute, " in run(*words, "--backend", "local")[2]
        assert "not included: --backend local" in run(*words, "--backend", "compute")[2]
        status, out, err = run(*words, "--backend", "local", "--json")
        assert (status, json.loads(out)["backends"], err) == (0, ["local"], "")


def test_a_local_job_streams_its_log_and_ends_with_0(run, script):
    script()
    status, out, err = run("submit", "train.py", "--nproc-per-node", "2")
    assert status == 0
    assert set(out.splitlines()) == {"[0] hello from rank 0", "[1] hello from rank 1"}
    assert "succeeded" in err


def test_a_job_that_fails_ends_with_1_and_its_own_traceback(run, read, script):
    script("raise ValueError('the labels are damaged')")
    status, _, err = run("submit", "train.py")
    assert status == 1
    assert "ValueError: the labels are damaged" in err
    assert "gputrain/cli" not in err
    status, job = read("submit", "train.py")
    assert (status, job["state"]) == (1, "failed")


def test_a_terminal_shows_the_traceback_of_a_failure_once(run, script, monkeypatch):
    script("raise ValueError('the labels are damaged')")
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(getattr(sys, name), "isatty", lambda: True)
    _, out, err = run("submit", "train.py", "--nproc-per-node", "1")
    assert (out + err).count("Traceback") == 1
    assert "why: ValueError: the labels are damaged" in err


def test_a_plan_says_a_fix_in_flags_and_the_same_commands_once(cloud, run, script):
    out = run("plan", script(), "--gpu", "H100:8", "--backend", "local")[1]
    assert "--nproc-per-node 8" in " ".join(out.split())
    more = ("--num-nodes", "2", "--region", "us-central1", "--region", "europe-west4")
    out = run("plan", script(), "--gpu", "H100:8", "--backend", "compute", *more)[1]
    assert out.count("gcloud compute firewall-rules create") == 1
    assert "as [1]" in out


def test_the_log_of_a_job_is_read_by_its_name_or_its_uri(run, script):
    script()
    status, out, _ = run("submit", "train.py", "--nproc-per-node", "2", "--json")
    job = json.loads(out)
    assert (status, job["state"]) == (0, "succeeded")
    assert "[1] hello from rank 1" in run("logs", job["name"])[1]
    _, out, _ = run("logs", job["uri"], "--rank", "1", "--follow", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(one["rank"], one["message"]) for one in lines] == [(1, "hello from rank 1")]


def test_without_a_script_what_follows_the_dashes_is_a_command(run):
    status, out, _ = run("submit", "--name", "echo", "--", "echo", "--json", "hello there")
    assert (status, out) == (0, "[0] --json hello there\n")


def test_a_module_gets_its_arguments_and_pairs_reach_the_ranks(run, script):
    script("import os, sys; print(os.environ['GREETING'], sys.argv[1:])")
    words = ("submit", "-m", "train", "--nproc-per-node", "1", "--env", "GREETING=a=b c", "--", "--lr", "1")
    assert run(*words)[1] == "[0] a=b c ['--lr', '1']\n"


@each("columns", [40, 80])
def test_help_of_every_command_fits_the_terminal(run, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    for command in ("", *gputrain.commands):
        status, out, _ = run(*filter(None, [command]), "--help")
        assert status == 0
        assert [line for line in out.splitlines() if len(line) > columns - 2] == [], command
        assert columns == 40 or command == "submit" or len(out.splitlines()) <= 24, command


def test_prices_of_all_regions_need_no_project_and_the_cheapest_come_first(run, read):
    rows = read("gpus", "H100:8", "--prices", "--spot")[1]["prices"]
    assert [one["price_usd_h"] for one in rows] == sorted(one["price_usd_h"] for one in rows)
    assert {one["provisioning_model"] for one in rows} == {"spot"}
    status, out, _ = run("gpus", "H100:8", "--prices", "--spot")
    assert (status, rows[0]["region"] in out.splitlines()[3]) == (0, True)
    assert f"{len(rows) - 15} more with --all" in out
    assert len(run("gpus", "H100:8", "--prices", "--spot", "--all")[1].splitlines()) == len(rows) + 4
    one = read("gpus", "H100:8", "--prices", "--region", "us-east4")[1]["prices"]
    assert {each["region"] for each in one} == {"us-east4"}


def test_a_plan_needs_neither_project_nor_bucket(run, read, script):
    words = (script(), "--gpu", "H100:8", "--provisioning-model", "spot", "--region", "us-east4")
    clouds = ("--backend", "vertex", "--backend", "compute")
    document = read("plan", *words, *clouds)[1]
    rows = document["candidates"]
    assert {one["backend"] for one in rows} == {"vertex", "compute"}
    assert {one["quota"] for one in rows} == {"unknown"}
    assert rows[0]["price_usd_h"] > 0
    assert any("no project is named" in one for one in document["warnings"])
    for word in ("submit", "doctor"):
        assert "--project" in run(word, *words, *clouds)[2]
    with pytest.raises(SpecError, match="no project"):
        Trainer(VertexAI(region="us-east4")).plan(words[0], gpu="H100:8").submit()


def test_a_plan_names_the_cheapest_region_that_was_not_asked_for(cloud, run, read, script):
    words = ("plan", script(), "--gpu", "H100:8", "--provisioning-model", "spot")
    cheapest = read("gpus", "H100:8", "--prices", "--spot")[1]["prices"][0]
    told = f"not asked for: {cheapest['region']}, 8 x H100, spot, ${cheapest['price_usd_h']:.2f}/h on Compute"
    out = run(*words, "--backend", "vertex", "--backend", "compute")[1]
    assert told in out
    # all places and machines without a known price; quotas may be unknown on a busy machine
    assert len(re.findall(r"compute .* unknown +unknown +1d$", out, re.M)) == 1


def test_a_plan_is_sorted_by_price_and_keeps_the_order_of_the_tries_in_its_numbers(cloud, run, script):
    words = ("plan", script(), "--gpu", "L4:2", "--gpu", "T4:2", "--all")

    def numbers(*more):
        rows = (line.split() for line in run(*words, *more)[1].splitlines())
        return [int(row[0]) for row in rows if row and row[0].isdigit()]

    tried, by_price = numbers(), numbers("--sort", "price")
    assert tried == sorted(by_price)
    assert by_price[0] != 1


@pytest.mark.parametrize("backend", ["vertex", "compute"])
def test_a_job_is_taken_from_a_gcloud_config_and_options_win_over_it(
    cloud, run, read, folder, backend, monkeypatch
):
    page = (ROOT / "docs/howto/from-gcloud.md").read_text()
    (folder / "config.yaml").write_text(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    (folder / "mine.txt").write_text("stays here")
    (folder / "gputrain.toml").write_text("[compute]\nexternal_ip = true\n")  # to fetch docker
    cloud.add_image("us-docker.pkg.dev/my-project/train/image:1")
    words = ("--from-gcloud", "config.yaml", "--backend", backend)
    plan = read("plan", *words, "--num-nodes", "2")[1]
    best = plan["candidates"][0]
    assert (best["gpu"], best["gpu_count"], best["num_nodes"]) == ("A100-80GB", 2, 2)
    assert plan["uploads"] == "nothing is uploaded: the image runs as it is"
    assert any("may run twice" in one for one in plan["warnings"]) == (backend == "vertex")
    status, job = read("submit", *words, "--detach")
    assert status == 0, job
    assert (job["spec"]["gpu"], "command" in job["spec"]) == (["A100-80GB:2"], False)
    (sent,) = [one for one in cloud.storage.objects.walk("my-bucket") if one.name.startswith("code/")]
    with tarfile.open(fileobj=io.BytesIO(sent.content.read())) as archive:
        assert archive.getnames() == [".gputrain/agent.pyz"]
    monkeypatch.delenv("GPUTRAIN_BACKENDS")
    assert {one["backend"] for one in read("plan", *words[:2])[1]["candidates"]} == {"vertex"}
    status, _, err = run("plan", "--from-gcloud", "gone.yaml")
    assert (status, "gone.yaml: No such file" in err) == (2, True)


def test_a_build_names_all_that_is_missing_at_once(cloud, run):
    for api in ("cloudbuild", "artifactregistry"):
        cloud.enable_api(api, enabled=False)
    status, _, err = run("build", "--base", "us-docker.pkg.dev/p/r/i:1", "--requirements", "einops==0.8.0")
    assert status == 3
    assert "artifactregistry" in err
    assert "cloudbuild" in err


@pytest.mark.parametrize("backend", ["compute", "vertex"])
def test_a_job_is_shown_with_its_resources_and_where_its_results_go(cloud, run, read, script, backend):
    asked = (script(), "--gpu", "L4:2", "--backend", backend)
    assert read("plan", *asked)[1]["outputs"] == "gs://my-bucket/jobs/JOB/output"
    assert "outputs: gs://my-bucket/jobs/JOB/output" in run("plan", *asked)[1]
    job = read("submit", *asked, "--checkpoint-dir", "gs://my-bucket/steps", "--detach")[1]
    place = f"gs://my-bucket/jobs/{job['id']}/output"
    assert (job["outputs"], job["checkpoints"]) == (place, "gs://my-bucket/steps")
    lines = [" ".join(line.split()) for line in run("show", job["id"], "--backend", backend)[1].splitlines()]
    assert {f"outputs {place}", "checkpoints gs://my-bucket/steps"} <= set(lines)
    if backend == "compute":
        assert f"resources {next(iter(cloud.compute.vms.values())).name}" in lines


def test_outputs_are_downloaded_and_no_name_leads_out_of_the_folder(cloud, run, read, script, folder):
    job = read("submit", script(), "--gpu", "L4:2", "--detach")[1]
    bucket = Objects(GoogleClient(project="my-project", **asked_for(None, None)), "my-bucket")
    for name, text in {"output/step/model.pt": b"x" * 99, "output/": b"", "checkpoints/one": b"1"}.items():
        bucket.write(f"jobs/{job['id']}/{name}", text, if_generation=None)
    status, out, _ = run("download", job["id"], "results")
    assert (status, "1 file, 99 bytes" in out) == (0, True)
    assert (folder / "results/step/model.pt").read_bytes() == b"x" * 99
    assert read("download", job["id"], "--checkpoints")[1]["files"] == [f"{job['id']}/one"]
    bucket.write(f"jobs/{job['id']}/output/../../escaped", b"?", if_generation=None)
    status, _, err = run("download", job["id"], "more")
    assert (status, "no name of a file" in err) == (2, True)
    assert sorted(one.name for one in folder.iterdir() if one.is_dir()) == sorted([job["id"], "results"])


def test_ssh_opens_a_shell_on_a_node(cloud, run, read, script, folder, monkeypatch):
    job = read("submit", script(), "--gpu", "L4:1", "--num-nodes", "2", "--detach")[1]
    (name,) = [vm.name for vm in cloud.compute.vms.values() if vm.name.endswith("-1")]
    assert read("ssh", job["id"], "1")[1]["command"].startswith(f"gcloud compute ssh {name} ")
    (folder / "gcloud").write_text('#!/bin/sh\necho "$@" >told\nexit 7\n')
    (folder / "gcloud").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    assert run("ssh", job["id"], "1")[0] == 7
    assert (folder / "told").read_text().startswith(f"compute ssh {name} ")
    assert "a node of" in run("ssh", job["id"], "2")[2]


def test_a_backend_whose_jobs_cannot_be_listed_is_named(cloud, run):
    cloud.fail("storage.objects.list", "C26", times=None)
    status, out, err = run("jobs", "--backend", "compute", "--backend", "local", "--json")
    assert (status, [one[:15] for one in json.loads(out)["left_out"]]) == (0, ["gs://my-bucket/"])
    assert err.startswith("left out of the list of jobs: gs://my-bucket/: ")


def test_quotas_that_cannot_be_read_end_with_5(cloud, run):
    for method in ("compute.regions.list", "compute.projects.get", "cloudquotas.quotaInfos.list"):
        cloud.fail(method, "C26", times=None)
    assert run("quotas", "--gpu", "L4:1")[0] == 5
