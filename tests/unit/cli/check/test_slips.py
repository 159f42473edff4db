"""A slip at the keyboard is answered with what to type instead."""

import os
import subprocess
import sys
from pathlib import Path

from gputrain_emulator.faults import server_error

ROOT = Path(__file__).parents[4]


def test_ctrl_c_while_modules_are_loaded_is_no_traceback():
    code = "import sys, signal; sys.argv = ['gputrain', 'jobs']\n"
    code += "from gputrain.cli import main\n"
    code += "class Finder:\n"
    code += "    def find_spec(self, name, *rest):\n"
    code += "        if name == 'gputrain.cli.commands': signal.raise_signal(signal.SIGINT)\n"
    code += "sys.meta_path.insert(0, Finder())\nsys.exit(main())\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\n")


def test_a_table_is_plain_where_its_signs_are_not_to_be_had(script):
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    cloud = ["--backend", "vertex", "--project", "my-project", "--region", "us-central1", "--gpu", "L4:1"]
    line = [sys.executable, "-m", "gputrain", "plan", script(), *cloud]
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False)
    assert ">= " in done.stdout
    assert "\\u" not in done.stdout


def complete(folder, line):
    """What bash offers at the end of a line, by the script that we print."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = f"""
gputrain() {{ {sys.executable} -m gputrain "$@"; }}
eval "$(gputrain completion bash)"
COMP_WORDS=({line})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_gputrain
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_a_shell_completes_commands_flags_values_and_names_of_jobs(folder, read, script):
    script()
    _, job = read("submit", "train.py", "--nproc-per-node", "1", "--name", "bert")
    assert complete(folder, "gputrain sub") == ["submit"]
    assert complete(folder, "gputrain submit --num") == ["--num-nodes"]
    assert complete(folder, "gputrain jobs --backend v") == ["vertex"]
    assert complete(folder, "gputrain logs be") == [job["id"]]
    assert complete(folder, "gputrain submit tr") == []  # a file: bash does that


def test_an_emulator_that_is_not_up_is_one_fault_with_what_starts_it(run, monkeypatch):
    url = "http://127.0.0.1:9"
    for name, value in (("PROJECT", "my-project"), ("BACKENDS", "vertex,compute"), ("REGIONS", "us-central1"),
                        ("BUCKET", "gs://my-bucket"), ("ENDPOINT", url)):  # fmt: skip
        monkeypatch.setenv(f"GPUTRAIN_{name}", value)
    status, out, _ = run("doctor")
    assert (status, out.partition(",")[0]) == (3, "Preflight: 1 fault")
    rows = [line.split(maxsplit=1) for line in out.splitlines() if line.startswith(("fault", "unknown"))]
    assert [finding for finding, _ in rows] == ["fault", "unknown"]
    assert rows[0][1].split(maxsplit=3)[3] == f"nobody answers at {url}: Connection refused"
    assert "start the emulator, gputrain-emulator --port 9; or name no endpoint, nor GPUTRAIN_ENDPOINT" in out
    assert len(out.splitlines()) < 12
    status, out, _ = run("quotas", "--gpu", "L4:1")
    assert (status, f"nobody answers at {url}" in out) == (5, True)


def test_a_doctor_that_could_look_at_little_exits_5(cloud, read):
    assert read("doctor")[0] == 0
    for method in {seen.method for seen in cloud.requests} - {"oauth.token"}:
        cloud.fail(method, server_error(501), times=None)
    status, document = read("doctor")
    assert status == 5
    assert {one["finding"] for one in document["checks"]} == {"unknown", "ok"}
