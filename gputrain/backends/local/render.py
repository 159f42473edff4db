"""The order for one job on this machine: pure data, from the spec and the candidate alone."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from gputrain.backends.base import Start
from gputrain.backends.results import of_agents
from gputrain.entrypoint import contract

SCHEMA = 1
LOOPBACK = "lo"
"""The interface of 127.0.0.1 on Linux; macOS calls it lo0."""


def order(start: Start, *, uuids: Sequence[str], locks: str) -> Mapping[str, Any]:
    """What the supervisor is told: what to start on each node, and within which limits.

    ``uuids`` are the GPUs of the candidate's kind, from which the supervisor takes what is free;
    ``locks`` is the folder of their lock files. The caller's environment is not here: it is inherited.
    """
    spec, candidate = start.spec, start.candidate
    gpus = {"uuids": list(uuids), "per_node": int(candidate.gpu_count), "locks": locks}
    return {
        "schema": SCHEMA,
        "job_id": start.job_id,
        "ask": start.nonce,
        "title": spec.title,
        "location": start.bundle.location,
        "nodes": [_node(start, node_rank) for node_rank in range(candidate.num_nodes)],
        "gpus": gpus if candidate.gpu else None,
        "requirements": list(spec.requirements),
        "checkpoint_dir": spec.checkpoint_dir,
        "output_dir": spec.output_dir,
        "max_run_s": int(candidate.max_run_duration.total_seconds()),
        "max_wait_s": int(spec.longest_queue.total_seconds()),
        "max_restarts": spec.max_restarts,
        "labels": dict(spec.labels),
    }


def address(job_id: str, node_rank: int) -> str:
    """A loopback address of the node's own, so that jobs and nodes of one machine never meet on a port.

    All of 127/8 is this machine on Linux; 127.0 and 127.1 hold localhost, a resolver and host names already.
    """
    digest = hashlib.sha256(job_id.encode()).digest()
    return f"127.{64 + digest[0] % 128}.{digest[1]}.{node_rank + 1}"


def _node(start: Start, node_rank: int) -> dict[str, Any]:
    spec, candidate, job_id = start.spec, start.candidate, start.job_id
    names = [f"node-{number}" for number in range(candidate.num_nodes)]
    env = {
        # Gloo would bind to whatever this machine's name resolves to, and fail where that is nothing.
        "GLOO_SOCKET_IFNAME": LOOPBACK,
        **spec.env,
        contract.JOB_ID: job_id,
        contract.NUM_NODES: str(candidate.num_nodes),
        contract.NODE_RANK: str(node_rank),
        contract.NODE_NAMES: ",".join(names),
        contract.NPROC_PER_NODE: str(candidate.nproc_per_node),
        **of_agents(spec),
        contract.LOCAL_ADDR: address(job_id, node_rank),
    }
    return {
        "node_rank": node_rank,
        "address": address(job_id, node_rank),
        "argv": ["--", *start.bundle.argv],
        "env": env,
    }
