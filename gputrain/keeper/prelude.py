# ruff: noqa: S606  # exec is the purpose
"""What happens in the container between the code's arrival and the node agent's start.

It travels with the code and the agent, and runs on the image's own Python, 3.7 or newer, without packages:
node 0 takes the job's lock, the nodes share a secret, secrets are read by reference, requirements are
installed, and the agent takes over.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
import tempfile
import time

from gputrain.entrypoint import contract

from .cloud import Bucket, call, order
from .errand import Errand, send_out
from .packages import Refused, install, refuse, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

TOKEN_EVERY_S = 2.0
CANCELLED = "cancelled"
"""In the lock: somebody has cancelled the job, and took the lock so that nothing of it begins."""


def main() -> None:
    """Run the steps; the agent replaces this process."""
    job = order(sys.argv[1])
    try:
        python = prepare(job)
    except (OSError, Refused) as error:
        fail(error)
    except Exception as error:  # noqa: BLE001  # the bucket may hold anything
        fail(Refused("the container could not be prepared: %r" % error))
    agent = os.path.join(os.getcwd(), ".gputrain", "agent.pyz")
    os.execv(python, [python, agent, "--", *job["argv"]])


def prepare(job: Any) -> str:
    """Take the steps; the Python that the agent and the ranks run on."""
    rank, count = place(os.environ)
    if job.get("lock"):
        bucket = Bucket(job["storage"], job["bucket"])
        if rank == 0:
            hold_lock(bucket, job["lock"])
        if count > 1:
            os.environ[contract.TOKEN] = shared_token(bucket, job["lock"] + "-token", rank == 0)
        results = os.environ[contract.RESULT_DIR] = tempfile.mkdtemp(prefix="gputrain-results-")
        send_out(Errand(bucket, job["lock"] + "-", results, rank))
    for name, reference in sorted((job.get("secrets") or {}).items()):
        os.environ[name] = read_secret(job["secretmanager"], reference)
    os.environ[contract.CODE_DIR] = os.getcwd()
    if not job.get("requirements"):
        return sys.executable
    environment = install(job["requirements"], tempfile.gettempdir())
    os.environ.update(environment.variables(os.environ))
    return environment.python


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

    A service without request ids may start a job twice: an object that only one of them can create decides.
    A restart of the same job finds its own name in it.
    """
    me = os.environ.get("CLOUD_ML_JOB_ID", "")
    if not me:
        say("this platform tells no job id: two jobs of the same key would both run", "WARNING")
        return
    mine = "%s 0 %s" % (me, os.urandom(8).hex())
    if bucket.put(name, mine.encode(), if_generation="0") is not None:
        return
    held = (bucket.get(name) or b"").decode("utf-8", "replace")
    if held == mine:  # the answer to the first try was lost
        return
    number, _, restarts = held.partition(" ")
    if number != me:
        with contextlib.suppress(OSError):  # for whoever looks once nobody has the lock any more
            bucket.put(f"{name}-{contract.IDLE}-{me}", b"")
        if number == CANCELLED:
            say("it was cancelled before it began; it does nothing", "NOTICE")
        else:
            say("superseded: job %s of the same key runs already; this one does nothing" % number, "NOTICE")
        sys.exit(0)
    count = int(restarts) + 1 if restarts.isdecimal() else 1
    try:  # beside the holder, for whoever watches; a job runs on where that is refused
        bucket.put(name, b"%s %d" % (me.encode(), count))
    except OSError as error:
        say("the restart cannot be noted: %s" % error, "WARNING")
    say("started again, restart %d" % count, "NOTICE")


def shared_token(bucket: Bucket, name: str, is_node_0: bool) -> str:
    """The secret of this job's agents: node 0 makes it, once for all restarts, the others read it."""
    patience = time.monotonic() + seconds_to_join()
    if is_node_0:
        bucket.put(name, os.urandom(32).hex().encode(), if_generation="0")
    while True:
        token = bucket.get(name)
        if token:
            return str(token.decode("utf-8", "replace"))
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
    """The secret that ``secret://projects/P/secrets/S/versions/V`` names. Raises Refused: it is no text."""
    body = call("GET", "%s/v1/%s:access" % (api, reference[len("secret://") :]))
    try:
        value = base64.b64decode(json.loads(body)["payload"]["data"]).decode()
    except (ValueError, KeyError, TypeError):
        value = "\0"
    if "\0" in value:  # it becomes a variable of the ranks
        raise Refused(
            "%s is no UTF-8 text without NUL bytes, and no variable can hold it: add a version in base64,"
            " and decode it in the script" % reference
        )
    return value


def fail(error: Exception) -> NoReturn:
    os.environ.setdefault(contract.NODE_RANK, str(place(os.environ)[0]))
    sys.exit(refuse(error))


if __name__ == "__main__":
    main()
