"""One live custom job: real processes behind its replicas, their addresses, and their lines in Logging."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import Any

from gputrain_emulator.folders import OwnFolder, remove
from gputrain_emulator.live import standins
from gputrain_emulator.live.addresses import serve_metadata
from gputrain_emulator.live.gcs_folder import GcsFolder
from gputrain_emulator.live.gpus import gpus
from gputrain_emulator.live.guest_process import PATH, Guest, GuestError, Setup, why_no_walls
from gputrain_emulator.live.vertex_environment import Place, environment, expanded, service_name
from gputrain_emulator.live.vm import account
from gputrain_emulator.logging import SEVERITIES
from gputrain_emulator.metadata import Account, Metadata, MetadataServer
from gputrain_emulator.vertex import Job, Vertex

CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
GRACE_S = 30.0  # from SIGTERM to SIGKILL; Vertex AI documents none
MAX_LINE = 256 * 1024  # what a log entry holds; the log agent cuts longer lines
EXIT_NO_START = 127
ENGINE_S = 10.0
GCS = "/gcs"  # where a replica sees every bucket. Source: Vertex AI code requirements, read 2026-11-20


class LiveJob:
    """The processes of one job. Public methods are called under the world's lock and do not block.

    Args:
        folder: its own.
        shared: variables of every replica.
        buckets: what its replicas see under /gcs.
        allow_unconfined: run commands as ordinary processes where the kernel gives no walls.
    """

    def __init__(
        self,
        vertex: Vertex,
        job: Job,
        *,
        folder: Path,
        shared: Mapping[str, str],
        buckets: GcsFolder,
        allow_unconfined: bool,
    ) -> None:
        self.vertex, self.job, self.folder, self.shared = vertex, job, folder, shared
        self.buckets, self.allow_unconfined = buckets, allow_unconfined
        self.servers = {
            task: serve_metadata(Metadata(read=self._tree, accounts=self._accounts()))
            for task in job.replicas
        }
        self._replicas: dict[str, LiveReplica] = {}
        self.all: list[LiveReplica] = []

    @property
    def places(self) -> list[Place]:
        """Every replica with its service name and address, the primary first."""
        return [
            Place(task=task, service=service_name(self.job.id, task), address=str(server.server_address[0]))
            for task, server in self.servers.items()
        ]

    def start(self, tasks: Sequence[str]) -> None:
        """Start these replicas; one that still runs is killed first."""
        for task in tasks:
            if task in self._replicas:
                self._replicas[task].kill()
            self._replicas[task] = replica = LiveReplica(self, task)
            self.all.append(replica)

    def stop(self) -> None:
        """SIGTERM to all; SIGKILL to what is left after the grace."""
        running = list(self._replicas.values())
        self._replicas.clear()
        for replica in running:
            replica.terminate()
        for replica in running:
            self.vertex.world.clock.after(GRACE_S, replica.kill)
        self._tell_when_gone()

    def close(self) -> None:
        """End everything and wait for it. Called without the world's lock."""
        for replica in self.all:
            replica.kill()
        for replica in self.all:
            replica.join()
        self._close_servers()

    def ended(self, replica: LiveReplica, status: int | None) -> None:
        """The last process of a replica is gone; None where it was asked to end."""
        with self.vertex.world.lock:
            if status is not None:
                self._replicas.pop(replica.task, None)
                self.vertex.replica_exited(self.job, replica.task, status)
                self.vertex.world.clock.changed()
            is_over = self._tell_when_gone() and self.job.ended is not None
        if is_over:
            self._close_servers()

    def _tell_when_gone(self) -> bool:
        """Whether no process is left; Vertex AI is told so."""
        if not all(replica.is_gone for replica in self.all):
            return False
        self.vertex.all_replicas_gone(self.job)
        return True

    def _close_servers(self) -> None:
        """Give the addresses back; a job that has ended never starts again."""
        with self.vertex.world.lock:
            servers, self.servers = self.servers, {}
        for server in servers.values():
            server.close()

    def _tree(self) -> dict[str, Any]:
        """Little, as the machine stands in a project of Google's own."""
        number = int(self.job.project.number)
        project = {"attributes": {}, "numericProjectId": number, "projectId": self.job.project.id}
        zone = f"projects/{number}/zones/{self.job.region}-a"
        instance = {"attributes": {}, "id": int(self.job.id), "zone": zone}
        return {"instance": instance, "project": project, "universe": {"universeDomain": "googleapis.com"}}

    def _accounts(self) -> dict[str, Account]:
        agent = f"service-{self.job.project.number}@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"
        email = self.job.spec.get("serviceAccount") or agent
        return {email: account(self.vertex.world, email, (CLOUD_PLATFORM,))}


class LiveReplica:
    """A replica's container, from its start to its end: an image, or its command on this computer."""

    def __init__(self, live: LiveJob, task: str) -> None:
        self._live, self.task = live, task
        self._place = next(place for place in live.places if place.task == task)
        pool = live.job.spec["workerPoolSpecs"][int(self._place.pool.removeprefix("workerpool"))]
        self._container = pool.get("containerSpec", {})
        self._machine = pool.get("machineSpec", {})
        self._folder = live.folder / f"{task}-{len(live.all)}"
        self._hostname = f"{self._place.service}-00000"
        self._hosts = {place.service: place.address for place in live.places}
        self._hosts |= dict.fromkeys(
            (self._hostname, "metadata.google.internal", "metadata"), self._place.address
        )
        self._environment = self._variables(live.servers[task])
        self._after = [one for one in live.all if one.task == task]  # whose machine is gone before this one's
        self._is_ending = self._is_cut = False
        self.is_gone = False
        self._guest: Guest | None = None
        self._temporary = OwnFolder()  # not below the other: names of sockets may have 107 characters
        self._thread = threading.Thread(target=self._run, name=f"replica {task}", daemon=True)
        self._thread.start()

    def terminate(self) -> None:
        """SIGTERM to the container's processes; its exit is not reported."""
        self._is_ending = True
        if self._guest is not None:
            self._guest.press_power_button()

    def kill(self) -> None:
        """SIGKILL; its exit is not reported."""
        self._is_ending = self._is_cut = True
        if self._guest is not None:
            self._guest.pull_the_plug()

    def join(self) -> None:
        """Wait until nothing of it is left."""
        self._thread.join()

    def _variables(self, server: MetadataServer) -> dict[str, str]:
        job = self._live.job
        service = environment(
            self._live.places,
            self._place,
            job_id=job.id,
            project_number=job.project.number,
            base_output=job.spec.get("baseOutputDirectory", {}).get("outputUriPrefix", ""),
        )
        given = expanded(self._container.get("env", ()), service)
        known = {"GCE_METADATA_HOST": server.host, "GCE_METADATA_IP": server.host}
        return {**self._live.shared, **known, **given, **service}

    def _run(self) -> None:
        for earlier in self._after:
            earlier.join()
        status, buckets = EXIT_NO_START, self._live.buckets
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            buckets.sync()
            status = self._run_container()
            buckets.sync()
        except (GuestError, OSError) as error:
            self._note(f"the replica cannot be kept going here: {error}")
        remove(self._folder)
        self._temporary.close()
        self.is_gone = True
        self._live.ended(self, None if self._is_ending else status)

    def _run_container(self) -> int:
        image, program = self._container.get("imageUri", ""), engine()
        if program and not _succeeds([program, "image", "inspect", image]):
            self._note(f"image {image} is not on this computer, and the emulator pulls nothing")
            program = ""
        if not program and not self._container.get("command"):
            self._note("without an image to run, containerSpec.command must say what to run")
            return EXIT_NO_START
        refusal = None if program or self._live.allow_unconfined else why_no_walls()
        if refusal is not None:
            self._note(f"the command was not run, as nothing would confine it here: {refusal}")
            return EXIT_NO_START
        name = f"emulated-{self._hostname}-{os.getpid()}"
        self._guest = guest = Guest(self._contained(program, image, name) if program else self._local(image))
        if self._is_cut:
            guest.pull_the_plug()
        elif self._is_ending:
            guest.press_power_button()
        status = self._follow(guest)
        if program:
            _succeeds([program, "rm", "--force", name])
        return status

    def _follow(self, guest: Guest) -> int:
        """Pass on every line until the end; the exit status."""
        errors = threading.Thread(target=self._pass_on, args=(guest.stderr, "ERROR"), daemon=True)
        errors.start()
        self._pass_on(guest.stdout, "INFO")
        errors.join()
        status = guest.wait()
        self._guest = None
        guest.close()
        return status

    def _pass_on(self, stream: BufferedReader, severity: str) -> None:
        while data := stream.readline(MAX_LINE):
            self._write(*read_line(data, severity))

    def _write(self, severity: str, text: str, payload: Mapping[str, Any] | None = None) -> None:
        vertex = self._live.vertex
        vertex.write_log(self._live.job, self.task, text, severity=severity, payload=payload)
        vertex.world.clock.changed()

    def _note(self, text: str) -> None:
        self._write("NOTICE", f"gputrain emulator: {text}")

    def _local(self, image: str) -> Setup:
        """The command on this computer, within walls where the kernel allows them."""
        walls = why_no_walls() is None
        self._note(
            f"no container engine has {image}: its command runs on this machine's "
            f"Python, {'in namespaces of its own' if walls else 'as an ordinary process'}"
        )
        kind = self._machine.get("acceleratorType", "").lower().replace("_", "-")
        there = gpus(kind, int(self._machine.get("acceleratorCount", 0)))
        replaced = standins.write(self._folder / "standins", gpus=there)
        hosts, disk = self._folder / "hosts", self._folder / "disk"
        rows = "".join(f"{ip} {name}\n" for name, ip in self._hosts.items())
        hosts.write_text(f"127.0.0.1 localhost\n{rows}")
        first = standins.INSIDE if walls else str(self._folder / "standins")
        disk.mkdir(exist_ok=True)
        own = {"HOME": "/root"} if walls else {"HOME": str(disk), "TMPDIR": str(self._temporary.path)}
        path = f"{first}:{self._environment.get('PATH', PATH)}"
        return Setup(
            kind="container",
            disk=disk,
            hostname=self._hostname,
            hosts=hosts,
            environment={**own, "LANG": "C.UTF-8", **self._environment, "PATH": path},
            replaced={**replaced, GCS: str(self._live.buckets.path)} if walls else {},
            walls=walls,
            argv=[*self._container["command"], *self._container.get("args", ())],
            directory="/workspace" if walls else str(disk),
        )

    def _contained(self, program: str, image: str, name: str) -> Setup:
        """The image in an engine; the guest is the engine's client.

        The environment travels in a file, as a command line can be read by every user of this computer. It
        shares the computer's network, so that every replica has its own loopback address.
        """
        file = self._folder / "environment"
        file.touch(mode=0o600)
        long = {key: value for key, value in self._environment.items() if "\n" in value}
        rows = (f"{key}={value}\n" for key, value in self._environment.items() if key not in long)
        file.write_text("".join(rows), encoding="utf-8")
        command, *arguments = self._container.get("command") or [""]
        words = [program, "run", "--rm", "--init", "--pull=never", "--network=host", f"--name={name}"]
        words += [f"--hostname={self._hostname}", f"--env-file={file}", "--stop-timeout=30"]
        words += [f"--add-host={host}:{address}" for host, address in self._hosts.items()]
        words += [*(f"--env={key}" for key in long), f"--volume={self._live.buckets.path}:{GCS}"]
        if Path("/dev/nvidia0").exists():
            is_docker = Path(program).name == "docker"
            words.append("--gpus=all" if is_docker else "--device=nvidia.com/gpu=all")
        if command:
            words.append(f"--entrypoint={command}")
        own = {name: os.environ.get(name, usual) for name, usual in (("PATH", PATH), ("HOME", "/"))}
        return Setup(
            kind="container",
            disk=self._folder,
            hostname=self._hostname,
            hosts=self._folder / "hosts",
            environment={**long, **own},
            walls=False,
            argv=[*words, image, *arguments, *self._container.get("args", ())],
            directory=str(self._folder),
        )


def read_line(data: bytes, severity: str) -> tuple[str, str, Mapping[str, Any] | None]:
    """Severity and text of a line, as the log agent sends it; one JSON object becomes structured."""
    text = data.decode("utf-8", "replace").rstrip("\r\n")
    if not text.startswith("{"):
        return severity, text, None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return severity, text, None
    said = str(document.pop("severity", severity)).upper()
    return said if said in SEVERITIES else severity, "", document


_asking = threading.Lock()


def engine() -> str:
    """Docker or Podman, whichever answers on this computer first; "" where none does."""
    with _asking:  # replicas begin together, and one answer is enough for all
        return _engine(os.environ.get("PATH", ""))


@functools.cache
def _engine(path: str) -> str:
    programs = (shutil.which(name, path=path) for name in ("docker", "podman"))
    asked = ["version", "--format", "{{.Server.Version}}"]
    return next((one for one in programs if one and _succeeds([one, *asked])), "")


def _succeeds(argv: Sequence[str]) -> bool:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=ENGINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
