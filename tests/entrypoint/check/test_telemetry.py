"""What ranks and GPUs use is told every few seconds, and a broken GPU is the machine's fault."""

import json
import os
import stat
import subprocess
import sys
import time

import pytest

from gputrain.backends.base import LogLine
from gputrain.metrics import MachineUse
from gputrain.runtime import contract
from gputrain.runtime.telemetry import GpuWatch, Telemetry

SMI = """#!{python}
import pathlib, sys, time
state = pathlib.Path({state!r})
known = {known!r}
options = [word for word in sys.argv[1:]]
if options == ["--help-query-gpu"]:
    print("\\n".join('"%s"' % name for name in known))
    sys.exit(0)
asked = options[0].partition("=")[2].split(",")
assert set(asked) <= set(known), "Field is not a valid field to query."
while True:
    for row in eval(state.read_text()):
        print(row if isinstance(row, str) else ", ".join(str(row.get(name, "[N/A]")) for name in asked))
    sys.stdout.flush()
    if "-l" not in options:
        break
    time.sleep(float(options[options.index("-l") + 1]))
"""
KNOWN = (
    "uuid", "pci.bus_id", "utilization.gpu", "memory.used", "power.draw", "temperature.gpu",
    "clocks_event_reasons.active", "ecc.errors.uncorrected.volatile.total", "remapped_rows.failure",
    "gpu_recovery_action",
)  # fmt: skip
WELL = {
    "utilization.gpu": 90, "memory.used": 1000, "power.draw": 300.5, "temperature.gpu": 60,
    "clocks_event_reasons.active": "0x0000000000000004", "ecc.errors.uncorrected.volatile.total": 0,
    "remapped_rows.failure": "No", "gpu_recovery_action": "None",
}  # fmt: skip


def put(program, text):
    """Another program in one's place; the kernel lets nobody write into one that is being started."""
    new = program.with_name("new")
    new.write_text(text)
    new.chmod(new.stat().st_mode | stat.S_IXUSR)
    os.replace(new, program)


@pytest.fixture
def smi(tmp_path):
    """A nvidia-smi on a path of its own, and how to have it tell of other GPUs."""
    state, folder = tmp_path / "gpus", tmp_path / "bin"
    folder.mkdir()

    def tell(*gpus, known=KNOWN):
        rows = [{"uuid": f"GPU-{n}", **one} if isinstance(one, dict) else one for n, one in enumerate(gpus)]
        (tmp_path / "new").write_text(repr(rows))
        os.replace(tmp_path / "new", state)
        put(folder / "nvidia-smi", SMI.format(python=sys.executable, state=str(state), known=known))
        return f"{folder}:{os.environ['PATH']}"

    return tell


def sampled(gpus, until, count=1):
    until(lambda: len(gpus.latest) == count, "a sample of each")
    return list(gpus.latest.values())


def test_each_gpu_is_told_in_our_words(smi, monkeypatch, until):
    hot = {**WELL, "utilization.gpu": 10, "clocks_event_reasons.active": "0x0000000000000040"}
    monkeypatch.setenv("PATH", smi(WELL, hot))
    gpus = GpuWatch({})
    found = sampled(gpus, until, count=2)
    assert found[0] == {
        "busy": 90.0, "memory_mib": 1000.0, "watts": 300.5, "celsius": 60.0, "throttled": 0.0,
    }  # fmt: skip
    assert (found[1]["busy"], found[1]["throttled"]) == (10.0, 1.0)
    assert gpus.fault() == ""
    gpus.close()


def test_an_older_driver_is_asked_what_it_knows(smi, monkeypatch, until):
    monkeypatch.setenv("PATH", smi(WELL, known=("uuid", "utilization.gpu")))
    gpus = GpuWatch({})
    assert sampled(gpus, until) == [{"busy": 90.0}]
    gpus.close()


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (
            {"ecc.errors.uncorrected.volatile.total": 2},
            "ecc.errors.uncorrected.volatile.total went from 0 to 2",
        ),
        ({"remapped_rows.failure": "Yes"}, "remapped_rows.failure went from no to yes"),
        ({"gpu_recovery_action": "Reboot"}, "gpu_recovery_action went from none to reboot"),
        ("Unable to determine the device handle for GPU0000:04:00.0: GPU is lost.  Reboot", "GPU is lost"),
    ],
)
def test_what_the_driver_says_of_a_broken_gpu_is_understood(smi, monkeypatch, until, now, said):
    monkeypatch.setenv("PATH", smi(WELL, {**WELL, "remapped_rows.failure": "Yes"}))  # the second: long ago
    gpus = GpuWatch({})
    sampled(gpus, until, count=2)
    assert gpus.fault_now() == ""
    smi({**WELL, **now} if isinstance(now, dict) else now)
    assert said in gpus.fault_now()
    gpus.close()


def test_a_rank_that_fails_of_a_broken_gpu_is_not_to_blame(cluster, smi, until, tmp_path):
    path = smi(WELL)
    script = cluster.script("""
        import pathlib, time
        print("up", flush=True)
        while not pathlib.Path("broken").exists():
            time.sleep(0.05)
        raise RuntimeError("CUDA error: unspecified launch failure")
    """)
    nodes = cluster.start_all(script, nodes=2, nproc=1, env={"PATH": path})
    until(lambda: all(node.said("up") for node in nodes), "the ranks' start")
    smi({**WELL, "gpu_recovery_action": "Reset"})
    (tmp_path / "broken").touch()
    for node in nodes:
        cause = node.wait().cause
        assert (node.code, cause["kind"], cause["rank"]) == (69, "gpu_fault", None), node.out
        assert "gpu_recovery_action went from none to reset" in cause["message"]


def test_a_line_tells_what_ranks_and_gpus_use(smi, monkeypatch, until):
    monkeypatch.setenv("PATH", smi(WELL, {**WELL, "utilization.gpu": 30}))
    written, told = [], MachineUse()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) as rank:
        telemetry = Telemetry(3, written.append, {}, every_s=1)
        while len(written) < 3:
            time.sleep(0.1)
            assert telemetry.look([rank.pid]) == ""
        telemetry.end()
        rank.kill()
    lines = [LogLine(message=line.decode(), node_rank=3) for line in written]
    told.add([*lines, LogLine(message=lines[0].message, rank=0, node_rank=3)])  # a rank may print anything
    last = told.metrics.last
    assert told.metrics.count == 3
    assert (last["node3.gpu_busy"], last["node3.gpu_watts"], last["node3.gpu_memory_mib"]) == (60, 601, 2000)
    assert last["node3.cpu_cores"] > 0.05
    assert last["node3.memory_mib"] >= 1
    assert 0 < told.share <= 0.61
    assert told.busy == 60


def test_another_attempt_adds_to_what_the_first_used():
    def line(**fields):
        told = {"time": 1.0, "node": 0, "gpus": [], **fields}
        return LogLine(message=contract.GAUGE_MARKER + json.dumps(told), node_rank=0)

    told = MachineUse()
    told.add([line(busy_s=50, gpu_s=100), line(busy_s=80, gpu_s=200), line(busy_s=10, gpu_s=100)])
    assert told.share == pytest.approx(90 / 300)
    odd = [{"busy_s": "x", "gpu_s": 1}, {"gpus": [None, {"busy": "full"}]}, {"time": None}, {"node": []}]
    told.add([line(**one) for one in odd])
    told.add([LogLine(message=contract.GAUGE_MARKER + "[" * 10_000)])
    assert told.share == pytest.approx(90 / 300)
