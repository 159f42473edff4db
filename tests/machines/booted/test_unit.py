"""A job's life on a VM: its keeper is a unit of systemd's, and Google's runner has nothing to do with it."""

import subprocess
from importlib import metadata

import pytest

from gputrain.lifecycle import State
from gputrain_emulator.errors import ApiError
from gputrain_emulator.faults import Refuse
from tests.package_index import wheel

LONG = 1_000_000
LOUD = f"""
import sys
print("x" * {LONG}, flush=True)
sys.stdout.write("".join("line %d\\n" % number for number in range({LONG})))
print("done", flush=True)
"""
SAVES = """
import os, signal, sys, time
def save(*_):
    time.sleep(1)
    with open(os.path.join(os.environ["GPUTRAIN_CHECKPOINT_DIR"], "saved"), "w") as file:
        file.write("whole")
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("training", flush=True)
time.sleep(600)
"""
LIMITS = """
import os, resource
limits = open("/proc/self/limits").read()
print("home", os.environ["HOME"])
print("files", resource.getrlimit(resource.RLIMIT_NOFILE)[0] == resource.getrlimit(resource.RLIMIT_NOFILE)[1])
print("unit", "/gputrain.service" in open("/proc/self/cgroup").read())
import torch
print("torch", torch.ones(3).sum().item(), flush=True)
"""


def test_lines_of_any_length_and_number_harm_nothing_and_are_in_the_log(road, spec, gone):
    ref = road.submit(spec(LOUD))
    assert road.end(ref).state is State.SUCCEEDED
    said = [line.message for line in ref.logs() if line.rank == 0]
    assert said[-LONG - 1 :] == [*(f"line {number}" for number in range(LONG)), "done"]
    assert sum(map(len, said[: -LONG - 1])) == LONG
    gone()


def test_a_job_has_the_limits_and_the_home_of_a_unit_of_its_own_and_removes_its_vm(road, spec, gone):
    ref = road.submit(spec(LIMITS))
    assert road.end(ref).state is State.SUCCEEDED
    gone()
    text = road.text(ref)
    for line in ("home /root", "files True", "unit True", "torch 3.0"):
        assert line in text


def test_a_stopped_vm_lets_its_ranks_save(cloud, road, spec, press, stored):
    ref = road.submit(spec(SAVES, checkpoint_dir="gs://my-bucket/ckpt"))
    road.until_said(ref, "training")
    press(ref.machines[0], "stop")
    seen = road.end(ref)
    assert stored("ckpt/saved") == "whole"
    assert seen.state is not State.SUCCEEDED
    assert "training" in road.text(ref)


def test_a_reset_vm_trains_no_second_time(road, spec, press, gone):
    ref = road.submit(spec(SAVES))
    road.until_said(ref, "training")
    press(ref.machines[0], "reset")
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "rebooted")
    assert road.text(ref).count("training") == 1
    gone()


def test_a_unit_that_is_restarted_saves_and_trains_no_second_time(road, spec, inside, stored, gone):
    ref = road.submit(spec(SAVES, checkpoint_dir="gs://my-bucket/ckpt"))
    road.until_said(ref, "training")
    inside("systemctl", "restart", "--no-block", "gputrain")
    assert road.end(ref).state is not State.SUCCEEDED
    assert stored("ckpt/saved") == "whole"
    assert road.text(ref).count("training") == 1
    gone()


@pytest.mark.parametrize("num_nodes", [1, 2])
def test_a_unit_that_is_restarted_before_its_ranks_run_says_so_and_frees_the_other_node(
    cloud, road, spec, gone, num_nodes
):
    held_up = "secretmanager.versions.access"
    silence = Refuse(error=ApiError(503, "Try again.", reason="backendError"))
    order = cloud.fail(held_up, silence, times=None)  # asked for again for half a minute
    secrets = {"KEY": "secret://projects/my-project/secrets/s/versions/1"}
    ref = road.submit(spec(SAVES, num_nodes=num_nodes, secrets=secrets))
    road.until(ref, lambda _: any(one.method == held_up for one in cloud.requests))
    computer = next(iter(cloud.world.runtime.vms.values())).computer.name

    def systemctl(*words):
        command = ["podman", "exec", computer, "systemctl", *words, "gputrain"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    systemctl("restart", "--no-block")
    road.until(ref, lambda _: systemctl("is-active") != "active")
    order.cancel()
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind) in ((State.FAILED, "stopped"), (State.FAILED, "rebooted"))
    assert "restarted" in seen.failure.message
    assert "training" not in road.text(ref)
    gone()


@pytest.mark.parametrize(("code", "state"), [(0, State.SUCCEEDED), (3, State.FAILED)])
def test_a_script_that_removes_all_of_its_job_ends_as_it_ended(road, spec, gone, code, state):
    script = f"import shutil, sys\nshutil.rmtree('/var/lib/gputrain', ignore_errors=True)\nsys.exit({code})\n"
    seen = road.end(road.submit(spec(script)))
    assert seen.state is state
    assert code == 0 or (seen.failure.kind, seen.failure.exit_code) == ("exit", 3)
    gone()


def test_a_startup_script_that_is_run_again_starts_nothing(road, spec, inside, gone):
    script = "import os, time\nprint('here I am', flush=True)\n"
    ref = road.submit(spec(script + "while not os.path.exists('/var/go'): time.sleep(0.05)\n"))
    road.until_said(ref, "here I am")
    assert "this job runs here already" in inside("google_metadata_script_runner", "startup")
    inside("systemctl", "restart", "google-startup-scripts")
    assert inside("systemctl", "is-active", "gputrain").strip() == "active"
    inside("touch", "/var/go")
    assert road.end(ref).state is State.SUCCEEDED
    assert road.text(ref).count("here I am") == 1
    gone()


def test_a_unit_that_is_killed_removes_its_vm(road, spec, inside, gone):
    road.until_said(road.submit(spec(SAVES)), "training")
    inside("systemctl", "kill", "--signal=KILL", "gputrain")
    gone()


def test_two_nodes_meet_on_a_network_of_their_own(road, spec, gone):
    script = (
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "ones = torch.ones(1)\n"
        "dist.all_reduce(ones)\n"
        "print('sum', ones.item(), flush=True)\n"
        "dist.destroy_process_group()\n"
    )
    ref = road.submit(spec(script, num_nodes=2))
    assert road.end(ref).state is State.SUCCEEDED
    assert road.text(ref).count("sum 2.0") == 2
    gone()


def test_a_cancelled_job_saves_within_its_grace_and_its_vm_is_gone(cloud, road, spec, stored, gone):
    cloud.compute.settings.acpi_s = 0.2  # whoever deletes first gives the ranks no time
    job = road.submit(spec(SAVES, checkpoint_dir="gs://my-bucket/ckpt"))
    road.until_said(job, "training")
    job.cancel()
    assert road.end(job).state is State.CANCELLED
    assert stored("ckpt/saved") == "whole"
    gone()


def test_requirements_come_beside_the_torch_of_the_image_or_are_refused(road, spec, tmp_path, gone):
    (tmp_path / "code").mkdir()
    wheel(tmp_path / "code", "not-here", "1.0", ["torch>=2"])
    wheel(tmp_path / "code", "wants-old", "1.0", ["torch==1.0"])
    near = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "simple/not-here simple/wants-old"}
    script = "import not_here, torch\nprint('has', not_here.VERSION, torch.__version__, flush=True)\n"
    ref = road.submit(spec(script, requirements=["not-here"], env=near, source_dir=str(tmp_path / "code")))
    assert road.end(ref).state is State.SUCCEEDED, road.text(ref)
    assert f"has 1.0 {metadata.version('torch')}" in road.text(ref)
    gone()
    ref = road.submit(spec(script, requirements=["wants-old"], env=near, source_dir=str(tmp_path / "code")))
    assert road.end(ref).state is State.FAILED
    said = road.text(ref)
    assert "torch==1.0" in said
    assert f"torch {metadata.version('torch')}" in said
    assert "has 1.0" not in said
    gone()


def test_a_rank_that_is_killed_while_it_writes_leaves_the_checkpoint_before_it(
    road, spec, inside, stored, gone
):
    script = (
        "import os, signal, time\n"
        "path = os.path.join(os.environ['GPUTRAIN_CHECKPOINT_DIR'], 'latest.pt')\n"
        "def save(text):\n"
        "    with open(path + '.new', 'w') as file:\n"
        "        file.write(text)\n"
        "        file.flush()\n"
        "        if text == 'hal': os.kill(os.getpid(), signal.SIGKILL)\n"
        "    os.replace(path + '.new', path)\n"
        "with open(os.path.join(os.environ['GPUTRAIN_OUTPUT_DIR'], 'log'), 'w') as log:\n"
        "    log.write('a line')\n"
        "    log.flush()\n"
        "    save('whole')\n"
        "    while not os.path.exists('/var/go'): time.sleep(0.05)\n"
        "    save('hal')\n"
    )
    ref = road.submit(spec(script, checkpoint_dir="gs://my-bucket/ckpt", output_dir="gs://my-bucket/out"))
    road.until(ref, lambda _: stored("ckpt/latest.pt") == "whole")
    assert stored("out/log") is None  # it is open
    inside("touch", "/var/go")
    seen = road.end(ref)
    assert (seen.state, seen.failure.kind) == (State.FAILED, "killed")
    assert stored("ckpt/latest.pt") == "whole"
    assert stored("out/log") == "a line"
    gone()


def test_nodes_see_what_another_has_closed_and_the_bucket_holds_it_at_the_end(
    road, spec, inside, stored, gone
):
    script = (
        "import os, time\n"
        "folder, rank = os.environ['GPUTRAIN_CHECKPOINT_DIR'], int(os.environ['RANK'])\n"
        "with open(os.path.join(folder, f'shard-{rank}'), 'w') as file: file.write('x' * 100_000)\n"
        "while not os.path.exists(os.path.join(folder, f'shard-{1 - rank}')): time.sleep(0.05)\n"
        "print('sees', folder, os.statvfs(folder).f_bsize > 0, flush=True)\n"
    )
    ref = road.submit(spec(script, num_nodes=2, checkpoint_dir="gs://my-bucket/ckpt"))
    assert road.end(ref).state is State.SUCCEEDED, road.text(ref)
    assert road.text(ref).count("sees /gcs/my-bucket/ckpt") == 2
    assert {len(stored(f"ckpt/shard-{rank}")) for rank in range(2)} == {100_000}
    gone()
