"""The environment that a replica of a custom job finds, as Vertex AI sets it.

Sources: Vertex AI documentation of distributed training and code requirements, and public launchers; read
2026-11-20. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are undocumented there and count nodes over all
pools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TRAINING_PORT = 2222
MASTER_PORT = 3333
TF_ROLES = {"workerpool0": "chief", "workerpool1": "worker", "workerpool2": "ps", "workerpool3": "evaluator"}


@dataclass(frozen=True, kw_only=True)
class Place:
    """One replica among all: its task (`workerpool1-0`), its service name and its address."""

    task: str
    service: str
    address: str

    @property
    def pool(self) -> str:
        return self.task.rpartition("-")[0]

    @property
    def index(self) -> int:
        return int(self.task.rpartition("-")[2])


def service_name(job_id: str, task: str) -> str:
    """The name of the Kubernetes service that stands before a replica."""
    pool, _, index = task.rpartition("-")
    return f"cmle-training-{pool}-{int(job_id):x}-{index}"[:63]


def environment(
    places: Sequence[Place],
    mine: Place,
    *,
    job_id: str,
    project_number: str,
    base_output: str,
) -> dict[str, str]:
    """The variables of replica `mine`; places: all replicas, the primary first.

    CLUSTER_SPEC holds addresses where Vertex AI writes names: a server binds its own, so several jobs run
    side by side on the same ports.
    """
    pools: dict[str, list[str]] = {}
    for place in places:
        pools.setdefault(place.pool, []).append(f"{place.address}:{TRAINING_PORT}")
    legacy = json.dumps({"python_module": "", "package_uris": [], "job_args": []})  # a string: so it is there
    task: dict[str, Any] = {"type": mine.pool, "index": mine.index}
    spec = {"cluster": pools, "environment": "cloud", "task": task, "job": legacy}
    found = {
        "CLUSTER_SPEC": json.dumps(spec),
        "CLOUD_ML_PROJECT_ID": project_number,
        "CLOUD_ML_JOB_ID": job_id,
        "HOSTNAME": f"{mine.service}-00000",
    }
    if base_output:
        base = base_output.rstrip("/")
        found |= {
            "AIP_MODEL_DIR": f"{base}/model/",
            "AIP_CHECKPOINT_DIR": f"{base}/checkpoints/",
            "AIP_TENSORBOARD_LOG_DIR": f"{base}/logs/",
        }
    if len(places) > 1:
        tensorflow = {
            "cluster": {TF_ROLES[pool]: list(hosts) for pool, hosts in pools.items()},
            "task": {"type": TF_ROLES[mine.pool], "index": mine.index, "cloud": ""},
            "environment": "cloud",
            "job": legacy,
        }
        found |= {
            "TF_CONFIG": json.dumps(tensorflow),
            "RANK": str([place.task for place in places].index(mine.task)),
            "WORLD_SIZE": str(len(places)),
            "MASTER_ADDR": places[0].address,
            "MASTER_PORT": str(MASTER_PORT),
        }
    return found


_TOKEN = re.compile(r"\$\$|\$\(([^()]*)\)")


def expanded(rows: Sequence[Mapping[str, str]], service: Mapping[str, str]) -> dict[str, str]:
    """The variables that a job gives a container, with $(NAME) in them replaced as Kubernetes replaces it.

    Source: aiplatform v1 protos, ``EnvVar.value``: by those before it and the service's own; what is not
    known stays, and a doubled dollar is one that begins no reference. Read 2026-11-23.
    """
    found: dict[str, str] = {}
    for row in rows:
        known = {**service, **found}
        found[row["name"]] = _TOKEN.sub(lambda token: _replaced(token, known), row.get("value", ""))  # noqa: B023
    return found


def _replaced(token: re.Match[str], known: Mapping[str, str]) -> str:
    return "$" if token[1] is None else known.get(token[1], token[0])
