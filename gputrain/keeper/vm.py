"""One VM of the gang, from its boot to its end.

It makes sure that this gang is the one that counts and that the GPUs are there, runs the node agent (on
the image, or in the user's container), and removes its own VM. A VM that boots a second time does not
train again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

from gputrain.entrypoint import contract

from . import container, gpus
from .cloud import call, metadata
from .container import Failed
from .node import ROOT, Running, ThisVm
from .rules import KILL, TICK_S, Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KILLED = (128 + signal.SIGKILL, 128 + signal.SIGTERM)
"""How docker tells of signals: the agent was there, and nobody let it finish."""

PYTHONS = ("python3", "/opt/conda/bin/python3", "/opt/venv/bin/python3", "/usr/bin/python3")
LOADER = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gputrain.keeper.loader import main; main()"
PEERS_FIRST_S, PEERS_EVERY_S = 2.0, 5.0
LOG_EVERY_S = 300.0
LEAD_S = 30
"""How long before Google's limit the ranks are asked to save, where the limit leaves room for it."""

ENDING_S = 65.0
"""How much longer than the ranks' time to save an agent may take: 60 s is the gang's limit for a verdict."""

BUTTON_S = 600
"""How long the power button may take after this VM was deleted."""


class AgentRun:
    """The agent of this node, and what stands around it."""

    def __init__(self, node: ThisVm) -> None:
        self.node, self.job = node, node.job
        self.began = time.monotonic()
        self.child: subprocess.Popen[bytes] | None = None
        self.why = ""
        self.mirrors: list[subprocess.Popen[bytes]] = []
        self.goes_down = self.is_over = False
        signal.signal(signal.SIGTERM, self.button_pressed)

    def to_its_end(self, was_here: bool) -> None:
        """Train, and tell how it went."""
        node = self.node
        try:
            if was_here:
                raise Failed("this VM booted a second time: it does not train again, the job does as a whole")
            node.tell("booted")
            for task in (self.watch, self.ask_the_bucket):
                threading.Thread(target=task, daemon=True).start()
            self.check_gpus()
            code = self.train()
        except Failed as error:
            node.say(str(error), "ERROR")
            node.send_logs()
            why = "restarted" if was_here else self.why or "boot"
            node.tell("ended", exit_code=contract.BAD_ENVIRONMENT, why=why, message=str(error))
            return
        finally:
            self.is_over = True
            self.end_mirrors()
        node.send_logs()
        told = {"message": f"{node.absent} never booted"} if self.why == "absent" else {}
        if node.lost_lines:
            told["lost_lines"] = str(node.lost_lines)
        node.tell("ended", exit_code=code, why=self.why, result=node.result(), **told)

    def check_gpus(self) -> None:
        """Wait for the driver, and count what it sees."""
        wanted, deadline = self.job["gpus"], time.monotonic() + self.job["driver_wait_s"]
        while True:
            seen = gpus.visible()
            if seen == wanted:
                return
            if seen is not None:
                raise Failed(f"nvidia-smi sees {seen} GPUs, and this machine should have {wanted}")
            if time.monotonic() > deadline:
                raise Failed(
                    f"nvidia-smi is missing or does not answer after {self.job['driver_wait_s']} s:"
                    " take a boot image with the NVIDIA driver (image_family=), or leave secure_boot off"
                )
            self.go_on()
            time.sleep(min(2.0, max(0.1, deadline - time.monotonic())))

    def train(self) -> int:
        """Run the agent to its end; its exit code."""
        env = self.environment()
        for variable, name in ((contract.CHECKPOINT_DIR, "checkpoints"), (contract.OUTPUT_DIR, "output")):
            env[variable] = self.mirrored(self.job[name], name)
        argv = ["-c", LOADER, ROOT, json.dumps(self.job["order"])]
        image, home = self.job["image"], self.node.home
        if image:
            self.node.say(f"pulling {image}")
            container.fetch(image, self.start)
            command = container.words(image, self.job["python"], argv, env, ROOT, home)
        else:
            command = [self.python(), *argv]
        self.node.tell("running")
        return self.follow(self.start(command, env=None if image else {**os.environ, **env}, cwd=home))

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start what a stop must reach, its errors among its output; raises Failed where it came before."""
        self.go_on()
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.child = child = subprocess.Popen(command, **{"stdin": subprocess.DEVNULL, **output, **options})
        if self.why:  # in the same moment
            child.terminate()
        return child

    def go_on(self) -> None:
        """Raise Failed where the gang has ended in the meantime."""
        if self.why:
            raise Failed(f"stopped before the ranks began: {self.why}")

    def follow(self, agent: subprocess.Popen[bytes]) -> int:
        """Pass on the agent's lines until it ends; its exit code."""
        assert agent.stdout is not None
        last = b""
        for line in agent.stdout:
            self.node.write(line)
            last = line
        code = agent.wait()
        if code > 0 and code not in KILLED and not self.why and self.node.result() is None:
            said = last.decode("utf-8", "replace").strip()[-2000:]
            where = "python3 of {}".format(self.job["image"]) if self.job["image"] else "the boot image"
            raise Failed(f"the node agent did not start with {where}, exit code {code}: {said}")
        return code

    def environment(self) -> dict[str, str]:
        """The user's variables, and where this node stands in the gang."""
        job, address = self.job, metadata("network-interfaces/0/ip")
        first = "{}.{}.c.{}.internal".format(job["names"][0], job["zone"], job["project"])
        own = {
            contract.ATTEMPT: str(job["attempt"]),
            contract.TOKEN: self.node.token,
            contract.NODE_RANK: str(self.node.rank),
            contract.NODE_NAMES: ",".join(job["names"]),
            contract.COORDINATOR: f"{first if self.node.rank else address}:29400",
            contract.LOCAL_ADDR: address,
            contract.RESULT_DIR: os.path.join(self.node.home, "results"),
            contract.LOG_DIR: os.path.join(self.node.home, "ranks"),
            "TMPDIR": os.path.join(self.node.home, "tmp"),
        }
        host = {name: os.environ[name] for name in ("GCE_METADATA_HOST",) if name in os.environ}
        return {**host, **job["env"], **own}

    def python(self) -> str:
        """A Python that has torch, or else any."""
        if self.job["python"]:
            return str(self.job["python"])
        found = [path for path in map(shutil.which, PYTHONS) if path]
        probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
        return next((path for path in found if subprocess.call([path, "-c", probe]) == 0), found[0])

    def mirrored(self, place: str, name: str) -> str:
        """The folder that is kept like a ``gs://`` place, filled with what is there already."""
        bucket, _, prefix = place[len("gs://") :].partition("/")
        folder = os.path.join(ROOT, self.job["job_id"], name)
        order = {
            "storage": self.job["storage"],
            "bucket": bucket,
            "prefix": prefix.rstrip("/") + "/",
            "folder": folder,
            "may_remove": self.node.rank == 0,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "gputrain.keeper.mirror", json.dumps(order)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.mirrors.append(process)
        assert process.stdout is not None
        said = process.stdout.readline()
        if said != b"filled\n":
            why = said.decode("utf-8", "replace").strip()
            raise Failed(
                f"{place} cannot be read: {why}\n"
                "Where that is a 403, the VM's account needs roles/storage.objectUser there"
            )
        return folder

    def end_mirrors(self) -> None:
        """Let them send what the ranks wrote last."""
        for process in self.mirrors:
            if process.stdin is not None:
                process.stdin.close()
        if sum(process.wait() for process in self.mirrors):
            self.node.say("not all of a folder could be sent to the bucket", "ERROR")

    def watch(self) -> None:
        """End with the gang: at the time limit, cancelled, with a peer; whoever does not heed is killed."""
        most = self.job["max_run_s"]
        limit = self.began + most - (LEAD_S if most >= 10 * LEAD_S else 0)
        rules = Rules(limit, "max_run_duration", self.grace_s() + ENDING_S)
        while not self.is_over:
            what = rules.at(time.monotonic(), self.why or self.node.word)
            self.why = self.why or rules.stop
            child = self.child
            if what and child is not None and child.poll() is None:
                child.send_signal(signal.SIGKILL if what == KILL else signal.SIGTERM)
            time.sleep(TICK_S)

    def ask_the_bucket(self) -> None:
        """Keep up with the gang's words in the bucket, and it with our log; slow calls hold up no limit."""
        sent, size = self.began, 0
        time.sleep(PEERS_FIRST_S)
        while not self.is_over and not self.why:
            self.node.word = self.node.gang_ends()
            due = self.node.offset > 2 * size or time.monotonic() > sent + LOG_EVERY_S
            if due and self.node.offset > size:
                sent, size = time.monotonic(), self.node.offset
                self.node.send_logs()
            time.sleep(PEERS_EVERY_S)

    def grace_s(self) -> float:
        """How long the agent gives its ranks to save; a setting that is none it complains of itself."""
        try:
            return float(self.job["env"].get(contract.GRACE) or contract.ENVIRONMENT[contract.GRACE][1])
        except ValueError:
            return 0.0

    def button_pressed(self, *_: object) -> None:
        """This VM goes down: the ranks may save, and then nothing of this script may hold it up."""
        self.goes_down = True
        self.why = self.why or "shutdown"  # the watch passes it on


def remove_self(node: ThisVm, goes_down: bool) -> None:
    """Delete this VM; where its account may not, power it off, which ends the bill for all but its disk."""
    job = node.job
    url = "%s/compute/v1/projects/%s/zones/%s/instances/%s"
    node.serial.flush()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # now: the button may be pressed before the reply comes
    try:
        call("DELETE", url % (job["compute"], job["project"], job["zone"], node.name))
        time.sleep(0 if goes_down else BUTTON_S)
    except OSError as error:
        node.say(f"this VM may not delete itself ({error}): it is powered off, and removed later", "WARNING")
    subprocess.call(["poweroff"])


def main() -> None:
    node = ThisVm(json.loads(metadata("attributes/gputrain-job")))
    try:
        was_here = node.was_here()
    except Running:  # a person ran the startup script by hand: the job and its VM are left alone
        with contextlib.suppress(OSError):
            sys.stderr.write("gputrain: this job runs here already\n")
        return
    run = AgentRun(node)
    try:
        if node.holds_lock():
            run.to_its_end(was_here)
        else:
            node.say("superseded: the job runs in another zone, and this VM does nothing", "NOTICE")
    except OSError as error:
        node.say(
            f"the bucket cannot be reached ({error}): is there Private Google Access or Cloud NAT, and has"
            " the VM's account roles/storage.objectUser?",
            "ERROR",
        )
    finally:
        remove_self(node, run.goes_down)


if __name__ == "__main__":
    main()
