# ruff: noqa: S310, S606, PERF203, UP031  # addresses are ours, exec is the purpose, Python 3.7
"""What happens in the container between the code's arrival and the node agent's start.

It travels with the code as ``.gputrain/prelude.py`` and runs on the image's own Python, 3.7 or newer, without
packages: node 0 takes the job's lock, secrets are read by reference, requirements are installed, and the
agent takes over.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

BAD_ENVIRONMENT = 64
PASSING = (408, 429, 500, 502, 503, 504)


def main() -> None:
    """Run the steps; the agent replaces this process."""
    job = json.loads(sys.argv[1])
    if job.get("lock") and is_node_0(os.environ):
        hold_lock(job)
    for name, reference in sorted((job.get("secrets") or {}).items()):
        os.environ[name] = read_secret(job["secretmanager"], reference)
    if job.get("requirements"):
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [install(job["requirements"]), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
    agent = os.path.join(os.getcwd(), ".gputrain", "agent.pyz")
    os.execv(sys.executable, [sys.executable, agent, "--", *job["argv"]])


def is_node_0(environ: Any) -> bool:
    """Whether this replica is the primary one; the only one of a job that names no cluster is."""
    try:
        task = json.loads(environ.get("CLUSTER_SPEC") or "{}").get("task") or {}
    except ValueError:
        return False
    return task.get("type", "workerpool0") == "workerpool0" and int(task.get("index", 0)) == 0


def hold_lock(job: Any) -> None:
    """Make this job the one that takes effect, or end with 0 where another one already has.

    A service without request ids can be made to start a job twice; the object that only one of them can
    create decides. A restart of the same job finds its own name in it.
    """
    me = os.environ.get("CLOUD_ML_JOB_ID", "")
    if not me:
        say("this platform tells no job id: two jobs of the same key would both run", "WARNING")
        return
    query = urllib.parse.urlencode({"uploadType": "media", "name": job["lock"], "ifGenerationMatch": "0"})
    url = "%s/upload/storage/v1/b/%s/o?%s" % (job["storage"], job["bucket"], query)
    status, _ = call(url, data=me.encode(), accept=(412,))
    if status != 412:
        return
    name = urllib.parse.quote(job["lock"], safe="")
    _, holder = call("%s/storage/v1/b/%s/o/%s?alt=media" % (job["storage"], job["bucket"], name))
    number, _, restarts = holder.decode().partition(" ")
    if number != me:
        say("superseded: job %s of the same key runs already; this one does nothing" % number, "NOTICE")
        sys.exit(0)
    note_restart(job, me, int(restarts) + 1 if restarts.isdigit() else 1)


def note_restart(job: Any, me: str, count: int) -> None:
    """Write beside the lock's holder how often it was started again; a job runs on where that is refused."""
    query = urllib.parse.urlencode({"uploadType": "media", "name": job["lock"]})
    url = "%s/upload/storage/v1/b/%s/o?%s" % (job["storage"], job["bucket"], query)
    call(url, data=b"%s %d" % (me.encode(), count), accept=(401, 403, *PASSING))
    say("started again, restart %d" % count, "NOTICE")


def read_secret(api: str, reference: str) -> str:
    """The secret that ``secret://projects/P/secrets/S/versions/V`` names."""
    import base64

    _, body = call("%s/v1/%s:access" % (api, reference[len("secret://") :]))
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


def call(url: str, data: bytes | None = None, accept: Any = ()) -> Any:
    """Status and body of an HTTP call with the machine's own identity."""
    for pause_s in (1, 2, 4, 8, 16, 0):
        try:
            headers = {"Authorization": "Bearer " + token(), "Content-Type": "text/plain"}
            with urllib.request.urlopen(
                urllib.request.Request(url, data=data, headers=headers), timeout=60
            ) as reply:
                return reply.status, reply.read()
        except OSError as error:
            status = getattr(error, "code", 503)
            if status in accept:
                return status, b""
            if status not in PASSING or not pause_s:
                fail("cannot call %s: %s" % (url.partition("?")[0], error))
            time.sleep(pause_s)
    return 0, b""


def token() -> str:
    """An access token of the machine's service account."""
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    url = "http://%s/computeMetadata/v1/instance/service-accounts/default/token" % host
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return str(json.loads(reply.read())["access_token"])


def say(message: str, severity: str = "INFO") -> None:
    """One structured line for the platform's log."""
    sys.stdout.write(json.dumps({"severity": severity, "message": "gputrain: " + message}) + "\n")
    sys.stdout.flush()


def fail(message: str) -> NoReturn:
    """End with the code that says: the environment is wrong."""
    say(message, "ERROR")
    sys.exit(BAD_ENVIRONMENT)


if __name__ == "__main__":
    main()
