"""What happens in the container between the code's arrival and the node agent's start.

It travels with the code and the agent, and runs on the image's own Python without packages:
the record is asked whether this attempt may train, node 0 takes the attempt's claim, secrets are read by
reference, requirements are installed, and the node agent starts.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import sys
import tempfile
import time
from typing import Any

from . import contract, processes
from .cloud import Bucket, call, order
from .contract import CANCELLED, SUPERSEDED, WAITING
from .fence import MINE, Fence
from .options import EnvironmentRefused, vertex_cluster
from .packages import Refused, install, refuse, say
from .reports import LINES_S, NodeLog, NodeReports, NodeSite
from .supervisor import Failed, Supervisor, seconds_of

CLAIM_EVERY_S = 2.0


def main() -> None:
    """Run the steps, and then the agent; of a job that has a record, in a process that reports for it."""
    job = order(sys.argv[1])
    try:
        reports = admit(job)
        if reports is None:
            argv = agent(job)
            os.execv(argv[0], argv)  # noqa: S606  # exec is the purpose
    except Exception as error:  # noqa: BLE001  # the bucket may hold anything
        sys.exit(refused(error))
    sys.exit(Container(job, reports).run())


class Container(NodeSite):
    """The agent in a container on Vertex AI, which keeps the job's limits itself."""

    def __init__(self, job: Any, reports: NodeReports) -> None:
        super().__init__(reports, os.environ)
        self._job = job
        self._argv: list[str] = []

    def wait(self, supervisor: Supervisor) -> None:
        """Secrets are read, and requirements installed."""
        supervisor.show(WAITING)
        try:
            self._argv = agent(self._job)
        except Exception as error:  # noqa: BLE001  # see above
            refused(error)
            raise Failed(str(error)) from None

    def start(self, supervisor: Supervisor, attempt: int) -> dict[int, int]:  # noqa: ARG002  # it is a `Site`
        return self.run_agent(supervisor, self._argv, os.environ, os.getcwd())

    def finish(self, supervisor: Supervisor) -> dict[str, Any]:  # noqa: ARG002
        if self.agent:
            self.lines.join(LINES_S)
        return {"result": self.reports.result()}

    def hear(self, lines: bytes) -> None:
        super().hear(lines)
        with contextlib.suppress(OSError):  # the platform's own log
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()

    def run(self) -> int:
        """Run the agent to its end; what to exit with."""
        processes.hold_signals()
        processes.adopt_orphans()
        supervisor = Supervisor(self.reports, self, node_rank=self.reports.rank)
        supervisor.run()
        says = supervisor.rules.stop or self.reports.fence.while_running()
        if says in (CANCELLED, SUPERSEDED):  # also where another node has heard of it before this one
            heed(says)
        ending = supervisor.endings.get(self.agent)
        if ending and ending.signal:
            return contract.BY_SIGNAL + ending.signal
        code: int | None = supervisor.document["exit_code"]
        return contract.STOPPED if code is None else code


def admit(job: Any) -> NodeReports | None:
    """Make sure that this job is the one of its attempt that trains. None: it has no record."""
    rank, count = place(os.environ)
    record, attempt, claim = (
        os.environ.pop(name, "") for name in (contract.RECORD, contract.ATTEMPT_ID, contract.CLAIM)
    )
    bucket, folder = Bucket(job["storage"], job["bucket"]), os.path.dirname(claim)
    if count > 1 and claim:
        os.environ[contract.RUN_DIR] = "%s/%s/%s" % (job["storage"], job["bucket"], folder)
    if not record:
        return None
    fence = Fence(bucket, record, attempt)
    heed(fence.at_boot())
    if rank == 0 or count > 1:
        heed_claim(bucket, fence, claim, is_first=rank == 0)
    log = NodeLog(tempfile.mkdtemp(prefix="gputrain-reports-"), rank)
    reports = NodeReports(bucket, folder + "/", fence, log, rank)
    os.environ[contract.RESULT_DIR] = reports.results
    return reports


def agent(job: Any) -> list[str]:
    """Read secrets and install requirements; the agent's command, on the Python that the ranks run on too."""
    for name, reference in sorted((job.get("secrets") or {}).items()):
        os.environ[name] = read_secret(job["secretmanager"], reference)
    os.environ[contract.CODE_DIR] = os.getcwd()
    for name in filter(os.environ.get, (contract.CHECKPOINT_DIR, contract.OUTPUT_DIR)):
        with contextlib.suppress(OSError):  # of a mounted bucket, where no folder is there by itself
            os.makedirs(os.environ[name], exist_ok=True)
    python = sys.executable
    if job.get("requirements"):
        environment = install(job["requirements"], tempfile.gettempdir())
        os.environ.update(environment.variables(os.environ))
        python = environment.python
    return [python, os.path.join(os.getcwd(), ".gputrain", "agent.pyz"), "--", *job["argv"]]


def place(environ: Any) -> tuple[int, int]:
    """Which replica this is, and of how many that train; the only one of a job that names no cluster."""
    try:
        cluster = vertex_cluster(environ)
    except EnvironmentRefused:
        return 1, 1  # the agent says what is wrong with it
    return (cluster.node_rank, cluster.num_nodes) if cluster else (0, 1)


def heed(says: str) -> None:
    """End where the job's record wants that: with 0, since the platform starts again what ends otherwise."""
    if says != MINE:
        say("%s, as the job's record says: this attempt does not train" % says, "NOTICE")
        sys.exit(0)


def heed_claim(bucket: Bucket, fence: Fence, name: str, *, is_first: bool) -> None:
    """Wait for node 0 to take the attempt's claim; end with 0 where another job than this one holds it.

    A service without request ids may start a job twice. A restart of the same job finds its own id.
    """
    me, patience = os.environ.get("CLOUD_ML_JOB_ID", ""), time.monotonic()
    if not me:
        say("this platform tells no job id: two jobs of the same key would both run", "WARNING")
        return
    if is_first:
        bucket.put(name, me.encode(), if_generation="0")
    patience += seconds_of(contract.JOIN_TIMEOUT, os.environ)
    while (holder := bucket.get(name)) is None:
        heed(fence.while_running())
        if time.monotonic() > patience:
            say("node 0 took no claim in time: it never came this far", "ERROR")
            sys.exit(contract.NODE_LOST)
        time.sleep(CLAIM_EVERY_S)
    holder = holder.decode("utf-8", "replace")
    if holder != me:
        say("superseded: job %s of the same attempt trains; this one does nothing" % holder[:30], "NOTICE")
        sys.exit(0)


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


def refused(error: Exception) -> int:
    """Report why the job cannot begin here; the exit code."""
    if not isinstance(error, (OSError, Refused)):
        error = Refused("the container could not be prepared: %r" % error)
    os.environ.setdefault(contract.NODE_RANK, str(place(os.environ)[0]))
    return refuse(error)


if __name__ == "__main__":
    main()
