"""What ranks write, through a real agent: nothing lost, nothing hung, one object a line."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from gputrain.entrypoint.logs import Pump
from tests.entrypoint.nodes import ROOT

MANY = 20_000
F_SETPIPE_SZ = 1031


def entries(node):
    return [json.loads(line) for line in node.lines if line.startswith("{")]


def test_every_line_of_every_rank_is_one_json_object(cluster):
    script = cluster.script("""
        import sys
        print("out")
        print("err", file=sys.stderr)
        sys.stdout.buffer.write(b"bytes \\xff\\n")
        print('{"message": "mine", "severity": "NOTICE"}')
        print("two\\nlines")
    """)
    node = cluster.run(script, flags=["--log-format=json"])
    assert len(node.lines) == 2 * 6 + 1
    told = [(entry["severity"], entry["message"]) for entry in entries(node) if entry["rank"] == 1]
    assert sorted(told) == [
        ("INFO", "bytes \\xff"), ("INFO", "lines"), ("INFO", "out"), ("INFO", "two"),
        ("NOTICE", "mine"), ("WARNING", "err"),
    ]  # fmt: skip


def test_the_agents_own_words_are_json_too(cluster):
    node = cluster.run(cluster.script("raise ValueError('bad')"), nproc=1, flags=["--log-format=json"])
    told = next(entry for entry in entries(node) if "node" in entry)
    assert told["severity"] == "ERROR"
    assert "ValueError: bad" in told["message"]


def test_metrics_keep_their_marker_in_both_formats(cluster):
    script = cluster.script("""print('GPUTRAIN_METRIC {"step": 1}')""")
    text = cluster.run(script, nproc=1)
    assert text.lines[0] == '[0] GPUTRAIN_METRIC {"step": 1}'
    structured = cluster.run(script, nproc=1, flags=["--log-format=json"])
    assert entries(structured)[0]["message"] == 'GPUTRAIN_METRIC {"step": 1}'


def test_each_rank_has_a_plain_log_of_its_own(cluster):
    logs = cluster.folder / "logs" / "deep"
    script = cluster.script("import os\nprint('rank', os.environ['RANK'])")
    cluster.run(script, nodes=2, flags=["--log-dir", logs, "--log-format=json"])
    assert [(logs / f"rank-{rank}.log").read_text() for rank in range(4)] == [
        f"rank {rank}\n" for rank in range(4)
    ]


def test_a_log_folder_that_cannot_be_written_costs_the_files_not_the_run(cluster):
    (cluster.folder / "file").touch()
    node = cluster.run(cluster.script("print('x')"), nproc=1, flags=["--log-dir", cluster.folder / "file"])
    assert node.code == 0
    assert node.said("without a log file")
    assert node.said("[0] x")


def test_a_rank_that_closes_its_streams_runs_on(cluster):
    script = cluster.script("""
        import os, sys, time
        os.close(1); os.close(2)
        time.sleep(0.3)
        os._exit(3 if os.environ["RANK"] == "1" else 0)
    """)
    node = cluster.run(script)
    assert (node.code, node.cause["rank"]) == (3, 1)


def test_a_child_that_holds_the_streams_open_does_not_hold_the_end(cluster):
    script = cluster.script("""
        import subprocess
        subprocess.Popen(["sleep", "600"])
        print("finished", end="")
    """)
    node = cluster.start(script, nproc=1).wait(10)
    assert node.code == 0
    assert node.said("[0] finished")


def start_piped(cluster, script, *flags):
    command = [sys.executable, "-m", "gputrain.entrypoint", "--nproc-per-node=2", *flags, "--", script]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=env, cwd=cluster.folder, stdout=subprocess.PIPE)


def test_a_slow_reader_loses_no_line_and_holds_the_ranks_back(cluster):
    script = cluster.script(f"""
        import os
        for number in range({MANY}):
            print(os.environ["RANK"], number)
        open("written-" + os.environ["RANK"], "w").close()
    """)
    with start_piped(cluster, script) as agent:
        fcntl.fcntl(agent.stdout, F_SETPIPE_SZ, 4096)
        first = agent.stdout.readline()
        # Between rank and reader lie two pipes and one buffer, far smaller than what the rank has to say.
        assert not list(cluster.folder.glob("written-*"))
        lines = [first, *agent.stdout]
    assert agent.returncode == 0
    for rank in (b"0", b"1"):
        numbers = [int(line.split()[2]) for line in lines if line.startswith(b"[%s] " % rank)]
        assert numbers == list(range(MANY))
    assert lines[-1].startswith(b"GPUTRAIN_RESULT ")


def test_a_reader_that_takes_nothing_does_not_keep_a_stop_from_the_ranks(cluster, until):
    script = cluster.script("""
        import os, signal, sys, threading
        def stop(number, frame):
            open("stopped-" + os.environ["RANK"], "w").close()
            os._exit(75)
        signal.signal(signal.SIGTERM, stop)
        open("up-" + os.environ["RANK"], "w").close()
        while True:
            print("x" * 1000)
    """)
    home = os.path.dirname(script)
    command = [sys.executable, "-m", "gputrain.entrypoint", "--nproc-per-node=2", "--", script]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=env, cwd=home, stdout=subprocess.PIPE) as agent:
        until(lambda: all(os.path.exists(f"{home}/up-{rank}") for rank in (0, 1)), "the ranks' start")
        agent.send_signal(signal.SIGTERM)
        until(lambda: all(os.path.exists(f"{home}/stopped-{rank}") for rank in (0, 1)), "the stop")
        assert agent.stdout.read().splitlines()[-1].startswith(b"GPUTRAIN_RESULT ")
    assert agent.returncode == 75


def test_a_reader_that_goes_away_does_not_end_the_run(cluster):
    script = cluster.script("""
        import time
        for _ in range(2000):
            print("x" * 100)
    """)
    with start_piped(cluster, script, "--result-dir", str(cluster.folder)) as agent:
        agent.stdout.readline()
        agent.stdout.close()
    assert agent.returncode == 0
    assert json.loads((cluster.folder / "result-0.json").read_text())["state"] == "done"


def test_a_stdout_that_does_not_block_is_written_to_all_the_same(cluster):
    script = cluster.script(f"for number in range({MANY}):\n    print(number, 'x' * 100)\n")
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    command = [sys.executable, "-m", "gputrain.entrypoint", "--nproc-per-node=1", "--", script]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=writable) as agent:
        os.close(writable)
        with os.fdopen(readable) as out:
            lines = out.read().splitlines()
    assert agent.returncode == 0
    assert len(lines) == MANY + 1


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_buffered_output_of_a_failing_rank_is_not_lost(cluster, log_format):
    script = cluster.script("""
        import sys
        sys.stdout.write("the last words")
        raise ValueError
    """)
    node = cluster.run(script, nproc=1, flags=["--log-format", log_format], env={"PYTHONUNBUFFERED": ""})
    assert node.said("the last words"), node.out


class Midway(Pump):
    """A pump that is asked to end in the very moment after it looked whether it was."""

    _is_asked, is_armed = False, False

    @property
    def _finishing(self):
        seen = self._is_asked
        if self.is_armed and not seen:
            self._is_asked = True
            self._nudge()
        return seen

    @_finishing.setter
    def _finishing(self, asked):
        self._is_asked = asked


def test_an_end_that_is_asked_for_while_the_pump_is_awake_is_heard():
    out, written = os.pipe()
    pump = Midway("text", "", 0, out=written)
    pump.is_armed = True
    pump.write(b"the last words")  # wakes it, so that it looks
    pump._thread.join(20)
    assert not pump._thread.is_alive()
    assert os.read(out, 100) == b"the last words\n"


def test_a_pump_that_fails_holds_up_neither_the_ranks_nor_the_agent(monkeypatch, capfd):
    """A fault in one line costs what is shown, not a rank that writes more than its pipe takes."""
    out, shown = os.pipe()
    pump = Pump("json", "", 0, out=shown)
    silent = threading.Event()
    pump.call_when_a_rank_falls_silent(silent.set)
    monkeypatch.setattr("gputrain.entrypoint.logs.as_json", lambda *_: 1 / 0)
    (read, write), (read_2, write_2) = os.pipe(), os.pipe()
    pump.adopt(0, read, read_2)
    for _ in range(100):
        os.write(write, b"a line\n" * 1000)
    os.close(write)
    os.close(write_2)
    assert silent.wait(60)
    pump.say("the agent goes on")
    pump.finish()
    assert b"the agent goes on" in os.read(out, 1000)
    assert pump.lost_lines > 50_000
    assert "ZeroDivisionError" in capfd.readouterr().err
    os.close(out)
    os.close(shown)


def test_an_agent_may_speak_when_nobody_listens_any_more(monkeypatch):
    monkeypatch.setattr(Pump, "_turn", lambda _: 1 / 0)
    pump = Pump("text", "", 0)
    pump._thread.join(60)
    for _ in range(100_000):
        pump.write(b"")
    pump.finish()
