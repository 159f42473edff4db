"""A job on this machine needs no account, no credentials and no network."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
NO_NETWORK = """
import sys

def refuse(event, args):
    if event == "socket.getaddrinfo" and args[0] not in (None, "localhost", "127.0.0.1", "::1"):
        if not str(args[0]).startswith("127."):
            raise RuntimeError(f"looked up {args[0]}")
    if event in ("socket.connect", "socket.sendto") and isinstance(args[1], tuple):
        if not str(args[1][0]).startswith(("127.", "::1", "localhost")):
            raise RuntimeError(f"reached for {args[1]}")

sys.addaudithook(refuse)
"""
"""Every Python of the job has it, as ``sitecustomize``: the client, the supervisor, agents and ranks."""

CLIENT = """
from gputrain import Local, Trainer

job = Trainer(Local(gpus=0)).submit("train.py", num_nodes=2, nproc_per_node=1)
job.result()
print(sorted(line.message for line in job.logs() if line.rank is not None))
"""
SCRIPT = """
import os, socket
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except RuntimeError:
    print("rank", os.environ["RANK"], "has no network", flush=True)
"""


def test_a_local_job_needs_no_account_and_no_network(tmp_path):
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(NO_NETWORK)
    (tmp_path / "train.py").write_text(SCRIPT)
    known = {name: value for name, value in os.environ.items() if "GOOGLE" not in name}
    here = {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(tmp_path / "hook"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, "-c", CLIENT], cwd=tmp_path, env={**known, **here}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "['rank 0 has no network', 'rank 1 has no network']\n"
