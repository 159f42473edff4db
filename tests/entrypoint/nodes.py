"""Real agents on loopback addresses, one per node, each a process of its own."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from gputrain.runtime import contract
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]


class Node:
    """One running agent; what it wrote is read when it has ended."""

    def __init__(self, command, env, cwd, out_path):
        self.out_path = out_path
        with open(out_path, "wb") as out:
            self.process = subprocess.Popen(command, env=env, cwd=cwd, stdout=out, stderr=subprocess.STDOUT)

    @property
    def pid(self):
        return self.process.pid

    def signal(self, number):
        os.kill(self.process.pid, number)

    def wait(self, timeout=PATIENCE_S):
        self.process.wait(timeout)
        return self

    @property
    def code(self):
        return self.process.returncode

    @property
    def out(self):
        return self.out_path.read_text(errors="replace")

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def result(self):
        found = [line for line in self.lines if line.startswith(contract.RESULT_MARKER)]
        assert len(found) == 1, self.out
        assert found[0] == self.lines[-1], self.out
        return json.loads(found[0][len(contract.RESULT_MARKER) :])

    @property
    def cause(self):
        return self.result["cause"]

    def said(self, text):
        return [line for line in self.lines if text in line]


class Cluster:
    """Starts agents for one test, and ends what is left of them after it."""

    def __init__(self, folder):
        self.folder = folder
        self.nodes = []
        tens, ones = os.urandom(1)[0], os.urandom(1)[0]
        self.prefix = f"127.{tens or 1}.{ones}"
        self.run_dir = folder / "run"

    def script(self, text, name="train.py"):
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return str(path)

    def start(
        self, *target, rank=0, nodes=1, nproc=2, flags=(), env=None, python=(sys.executable,), module=None
    ):
        entry = module or ("-m", "gputrain.entrypoint")
        command = [*python, *entry, f"--nproc-per-node={nproc}"]
        if nodes > 1:
            command += [f"--num-nodes={nodes}", f"--node-rank={rank}", f"--run-dir={self.run_dir}"]
            command += [f"--local-addr={self.prefix}.{rank + 2}"]
        full = {"PYTHONPATH": str(ROOT), "HOME": str(self.folder)}
        full |= {name: os.environ[name] for name in ("PATH", "TMPDIR")} | (env or {})
        full = {name: value for name, value in full.items() if value is not None}
        node = Node(
            [*command, *map(str, flags), "--", *map(str, target)],
            full,
            self.folder,
            self.folder / f"out-{len(self.nodes)}",
        )
        self.nodes.append(node)
        return node

    def start_all(self, *target, nodes=2, nproc=2, flags=(), env=None):
        counts = nproc if isinstance(nproc, (list, tuple)) else [nproc] * nodes
        return [
            self.start(*target, rank=rank, nodes=nodes, nproc=counts[rank], flags=flags, env=env)
            for rank in range(nodes)
        ]

    def run(self, *target, nodes=1, **options):
        if nodes == 1:
            return self.start(*target, **options).wait()
        return [node.wait() for node in self.start_all(*target, nodes=nodes, **options)]

    def close(self):
        for node in self.nodes:
            if node.process.poll() is None:
                node.signal(signal.SIGKILL)
                node.process.wait()


def alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
