"""One live custom job: its replicas, their addresses, and who is told when they end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gputrain_emulator.live.addresses import serve_metadata
from gputrain_emulator.live.gcs_folder import GcsFolder
from gputrain_emulator.live.gpus import gpus
from gputrain_emulator.live.replica import LiveReplica
from gputrain_emulator.live.vertex_environment import Place, environment, expanded, service_name
from gputrain_emulator.live.vm import account
from gputrain_emulator.metadata import Account, Metadata, MetadataServer
from gputrain_emulator.vertex import Job, Vertex

CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"
GRACE_S = 30.0  # from SIGTERM to SIGKILL; Vertex AI documents none


@dataclass(kw_only=True, eq=False)
class LiveJob:
    """The processes of one job. Public methods are called under the world's lock and do not block."""

    vertex: Vertex
    job: Job
    folder: Path
    shared: Mapping[str, str]
    buckets: GcsFolder
    allow_unconfined: bool
    _servers: dict[str, MetadataServer] = field(default_factory=dict)
    _replicas: dict[str, LiveReplica] = field(default_factory=dict)
    _all: list[LiveReplica] = field(default_factory=list)

    def __post_init__(self) -> None:
        for task in self.job.replicas:
            self._servers[task] = serve_metadata(Metadata(read=self._tree, accounts=self._accounts()))

    @property
    def places(self) -> list[Place]:
        """Every replica with its service name and address, the primary first."""
        return [
            Place(task=task, service=service_name(self.job.id, task), address=str(server.server_address[0]))
            for task, server in self._servers.items()
        ]

    def start(self, tasks: Sequence[str]) -> None:
        """Start these replicas; one that still runs is killed first."""
        for task in tasks:
            if task in self._replicas:
                self._replicas[task].kill()
            self._replicas[task] = replica = self._start(task)
            self._all.append(replica)

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
        for replica in self._all:
            replica.kill()
        for replica in self._all:
            replica.join()
        self._close_servers()

    def _start(self, task: str) -> LiveReplica:
        mine = next(place for place in self.places if place.task == task)
        spec = self.job.document["jobSpec"]
        pool = spec["workerPoolSpecs"][int(mine.pool.removeprefix("workerpool"))]
        container = pool.get("containerSpec", {})
        machine = pool.get("machineSpec", {})
        kind = machine.get("acceleratorType", "").lower().replace("_", "-")
        return LiveReplica(
            task=task,
            container=container,
            folder=self.folder / f"{task}-{len(self._all)}",
            hostname=f"{mine.service}-00000",
            hosts=self._hosts(mine),
            environment=self._environment(mine, container.get("env", ())),
            gpus=gpus(kind, int(machine.get("acceleratorCount", 0))),
            buckets=self.buckets,
            allow_unconfined=self.allow_unconfined,
            after=[one for one in self._all if one.task == task],
            write=lambda *line: self._write(task, *line),
            ended=lambda status: self._ended(task, status),
            gone=self._gone,
        )

    def _hosts(self, mine: Place) -> dict[str, str]:
        """Names to addresses, as the replica's /etc/hosts has them."""
        names = {place.service: place.address for place in self.places}
        names[f"{mine.service}-00000"] = mine.address
        return {**names, "metadata.google.internal": mine.address, "metadata": mine.address}

    def _environment(self, mine: Place, own: Sequence[Mapping[str, str]]) -> dict[str, str]:
        spec = self.job.document["jobSpec"]
        host = self._servers[mine.task].host
        service = environment(
            self.places,
            mine,
            job_id=self.job.id,
            project_number=self.job.project.number,
            base_output=spec.get("baseOutputDirectory", {}).get("outputUriPrefix", ""),
        )
        given = expanded(own, service)
        return {**self.shared, "GCE_METADATA_HOST": host, "GCE_METADATA_IP": host, **given, **service}

    def _write(self, task: str, severity: str, text: str, payload: Mapping[str, Any] | None) -> None:
        self.vertex.write_log(self.job, task, text, severity=severity, payload=payload)
        self.vertex.world.clock.changed()

    def _ended(self, task: str, status: int) -> None:
        with self.vertex.world.lock:
            self._replicas.pop(task, None)
            self.vertex.replica_exited(self.job, task, status)
            self.vertex.world.clock.changed()

    def _gone(self) -> None:
        with self.vertex.world.lock:
            is_over = self._tell_when_gone() and self.job.life.ended is not None
        if is_over:
            self._close_servers()

    def _tell_when_gone(self) -> bool:
        """Whether no process is left; Vertex AI is told so."""
        if not all(replica.is_gone for replica in self._all):
            return False
        self.vertex.all_replicas_gone(self.job)
        return True

    def _close_servers(self) -> None:
        """Give the addresses back; a job that has ended never starts again."""
        with self.vertex.world.lock:
            servers, self._servers = self._servers, {}
        for server in servers.values():
            server.close()

    def _tree(self) -> dict[str, Any]:
        """Little, as the machine stands in a project of Google's own."""
        number = int(self.job.project.number)
        project = {"attributes": {}, "numericProjectId": number, "projectId": self.job.project.id}
        instance = {
            "attributes": {},
            "id": int(self.job.id),
            "zone": f"projects/{number}/zones/{self.job.region}-a",
        }
        return {"instance": instance, "project": project, "universe": {"universeDomain": "googleapis.com"}}

    def _accounts(self) -> dict[str, Account]:
        agent = f"service-{self.job.project.number}@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"
        email = self.job.document["jobSpec"].get("serviceAccount") or agent
        return {email: account(self.vertex.world, email, (CLOUD_PLATFORM,))}
