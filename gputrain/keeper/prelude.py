# ruff: noqa: S606  # exec is the purpose
"""What happens in the container between the code's arrival and the node agent's start.

It travels with the code and the agent, and runs on the image's own Python, 3.7 or newer, without packages:
node 0 takes the job's lock, the nodes share a secret, secrets are read by reference, requirements are
installed, and the agent takes over.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time

from gputrain.entrypoint import contract

from .cloud import Bucket, call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

TOKEN_EVERY_S = 2.0


def main() -> None:
    """Run the steps; the agent replaces this process."""
    job = json.loads(sys.argv[1])
    try:
        prepare(job)
    except OSError as error:
        fail(str(error))
    agent = os.path.join(os.getcwd(), ".gputrain", "agent.pyz")
    os.execv(sys.executable, [sys.executable, agent, "--", *job["argv"]])


def prepare(job: Any) -> None:
    rank, count = place(os.environ)
    if job.get("lock"):
        bucket = Bucket(job["storage"], job["bucket"])
        if rank == 0:
            hold_lock(bucket, job["lock"])
        if count > 1:
            os.environ[contract.TOKEN] = shared_token(bucket, job["lock"] + "-token", rank == 0)
    for name, reference in sorted((job.get("secrets") or {}).items()):
        os.environ[name] = read_secret(job["secretmanager"], reference)
    if job.get("requirements"):
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [install(job["requirements"]), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
    os.environ[contract.CODE_DIR] = os.getcwd()


def place(environ: Any) -> tuple[int, int]:
    """Which replica this is, and of how many that train; the only one of a job that names no cluster."""
    try:
        spec = json.loads(environ.get("CLUSTER_SPEC") or "{}")
        pools, task = spec.get("cluster") or {}, spec.get("task") or {}
        first, others = len(pools.get("workerpool0") or ()), len(pools.get("workerpool1") or ())
        is_first = task.get("type", "workerpool0") == "workerpool0"
        return int(task.get("index", 0)) + (0 if is_first else max(1, first)), max(1, first + others)
    except (AttributeError, TypeError, ValueError):
        return 1, 1  # the agent says what is wrong with it


def hold_lock(bucket: Bucket, name: str) -> None:
    """Make this job the one that takes effect, or end with 0 where another one already has.

    A service without request ids can be made to start a job twice; the object that only one of them can
    create decides. A restart of the same job finds its own name in it.
    """
    me = os.environ.get("CLOUD_ML_JOB_ID", "")
    if not me:
        say("this platform tells no job id: two jobs of the same key would both run", "WARNING")
        return
    if bucket.put(name, me.encode(), only_if_absent=True) is not None:
        return
    number, _, restarts = (bucket.get(name) or b"").decode("utf-8", "replace").partition(" ")
    if number != me:
        say("superseded: job %s of the same key runs already; this one does nothing" % number, "NOTICE")
        sys.exit(0)
    count = int(restarts) + 1 if restarts.isdigit() else 1
    try:  # beside the holder, for whoever watches; a job runs on where that is refused
        bucket.put(name, b"%s %d" % (me.encode(), count))
    except OSError as error:
        say("the restart cannot be noted: %s" % error, "WARNING")
    say("started again, restart %d" % count, "NOTICE")


def shared_token(bucket: Bucket, name: str, is_node_0: bool) -> str:
    """The secret of this job's agents: node 0 makes it, once for all restarts, the others read it."""
    patience = time.monotonic() + seconds_to_join()
    if is_node_0:
        bucket.put(name, os.urandom(32).hex().encode(), only_if_absent=True)
    while True:
        token = bucket.get(name)
        if token:
            return str(token.decode())
        if time.monotonic() > patience:
            say("node 0 made no secret for the agents in time: it never came this far", "ERROR")
            sys.exit(contract.NODE_LOST)
        time.sleep(TOKEN_EVERY_S)


def seconds_to_join() -> float:
    try:
        return float(os.environ.get(contract.JOIN_TIMEOUT) or contract.ENVIRONMENT[contract.JOIN_TIMEOUT][1])
    except ValueError:
        return 0.0  # the agent says what is wrong with it


def read_secret(api: str, reference: str) -> str:
    """The secret that ``secret://projects/P/secrets/S/versions/V`` names."""
    body = call("GET", "%s/v1/%s:access" % (api, reference[len("secret://") :]))
    return base64.b64decode(json.loads(body)["payload"]["data"]).decode()


def install(requirements: Any) -> str:
    """The folder that pip installed the requirements into; the same ones on the same Python once."""
    words = list(requirements)
    asked = list(words)
    if words[0] == "-r":
        with open(words[1], encoding="utf-8") as file:
            asked.append(file.read())
    key = hashlib.sha256(json.dumps([sys.version, asked]).encode()).hexdigest()[:16]
    target = os.path.join(tempfile.gettempdir(), "gputrain-packages-" + key)
    if os.path.isdir(target):
        return target
    building = tempfile.mkdtemp(prefix="gputrain-packages-")
    command = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    done = subprocess.run(  # a list, never a shell
        [*command, "--target", building, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        fail("pip could not install the requirements:\n" + done.stdout.decode("utf-8", "replace")[-4000:])
    try:
        os.rename(building, target)
    except OSError:  # another replica on this machine was first
        return building
    return target


def say(message: str, severity: str = "INFO") -> None:
    """One structured line for the platform's log."""
    sys.stdout.write(json.dumps({"severity": severity, "message": "gputrain: " + message}) + "\n")
    sys.stdout.flush()


def fail(message: str) -> NoReturn:
    """End with the code that says: the environment is wrong."""
    say(message, "ERROR")
    sys.exit(contract.BAD_ENVIRONMENT)


if __name__ == "__main__":
    main()
