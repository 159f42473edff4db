"""A job's life on a VM: its supervisor is a unit of systemd's, apart from Google's runner."""

from gputrain.lifecycle import State
from tests.unit.runtime.fenced import Job

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


def test_ranks_of_a_vm_that_boots_are_killed_and_save_nothing_once_another_attempt_trains(cloud, tmp_path):
    job = Job(cloud, tmp_path)
    job.is_superseded_while_it_trains()
