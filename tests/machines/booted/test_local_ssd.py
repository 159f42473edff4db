"""Local SSDs, which Google attaches empty: striped and mounted, and what a job writes lies on them."""

from gputrain.lifecycle import State

WHERE = """
import os
def device(path):
    at = os.stat(path).st_dev
    number = "%d:%d" % (os.major(at), os.minor(at))
    return next(line.split(" - ")[1].split()[1] for line in open("/proc/self/mountinfo") if number in line)
for name in ["XDG_CACHE_HOME", "TMPDIR"]:
    os.makedirs(os.environ[name], exist_ok=True)
    print(name, device(os.environ[name]))
print("code", device(os.path.dirname(os.path.abspath(__file__))), flush=True)
words = [open("/proc/%s/cmdline" % pid).read().split(chr(0)) for pid in os.listdir("/proc") if pid.isdigit()]
(folder,) = {word.partition("=")[2] for all in words for word in all if word.startswith("--temp-dir=")}
print("on the way", device(folder), flush=True)
with open(os.path.join(os.environ["GPUTRAIN_CHECKPOINT_DIR"], "saved-" + os.environ["RANK"]), "w") as file:
    file.write("whole")
"""
FIRST = "/dev/disk/by-id/google-local-nvme-ssd-0"


def run(road, spec, text, **fields):
    ref = road.submit(spec(text, checkpoint_dir="gs://my-bucket/ckpt", **fields))
    seen = road.end(ref)
    assert seen.state is State.SUCCEEDED, road.text(ref)
    return road.text(ref)


def test_what_a_job_loads_and_what_is_on_its_way_to_the_bucket_lies_on_the_local_ssd(
    road, spec, stored, gone
):
    text = run(road, spec, WHERE, gpu="A100-80GB:1")
    for name in ("XDG_CACHE_HOME", "TMPDIR", "code", "on the way"):
        assert f"{name} {FIRST}" in text
    assert "GiB of local SSD" in text
    assert stored("ckpt/saved-0") == "whole"
    gone()
