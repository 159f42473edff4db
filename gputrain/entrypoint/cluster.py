"""Which node this is and where node 0 is: a table of platforms, read in order of precedence.

Vertex AI's own RANK, WORLD_SIZE and MASTER_ADDR count nodes, over all pools, and are undocumented: they are
not read. Its names are those of services, not of hosts.
Sources: Vertex AI distributed training documentation and public launchers, read 2026-11-20.
"""

from __future__ import annotations

import json

from .addresses import in_brackets
from .options import LAST_PORT, EnvironmentRefused, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from .options import Options

DEFAULT_PORT = 29400
"""Where rank 0 listens when only its host is known; the port torchrun's rendezvous uses."""


class Cluster:
    """The nodes of a job as one node sees them. `port` is 0 where node 0 is free to choose one."""

    def __init__(
        self,
        num_nodes: int,
        node_rank: int,
        host: str = "",
        port: int = 0,
        names: Sequence[str] = (),
        nproc: int | None = None,
    ) -> None:
        self.num_nodes = num_nodes
        self.node_rank = node_rank
        self.host, self.port = host, port
        self.names = tuple(names) if len(names) == num_nodes else ()
        self.nproc = nproc
        if host.lower().startswith("fe80:"):
            raise EnvironmentRefused(
                f"the address of node 0 is {host!r}, but an address of the link means another interface on "
                "each node; use another address of node 0, or its name"
            )

    def name_of(self, node_rank: int) -> str:
        """How messages speak of a node, with its name where one is known."""
        return f"node {node_rank} ({self.names[node_rank]})" if self.names else f"node {node_rank}"


def find_cluster(options: Options, environ: Mapping[str, str]) -> Cluster:
    """The cluster of this node: as given, else Vertex AI's CLUSTER_SPEC, else PET_*, else one node.

    Raises EnvironmentRefused when what was found contradicts itself.
    """
    found = (find(options, environ) for find in PLATFORMS)
    cluster = next((one for one in found if one is not None), None) or Cluster(1, 0)
    if not 0 <= cluster.node_rank < cluster.num_nodes:
        raise EnvironmentRefused(
            f"node rank {cluster.node_rank} does not exist among {cluster.num_nodes} nodes; they count from 0"
        )
    if cluster.num_nodes > 1 and not options.run_dir:
        if not cluster.host or not cluster.port:
            raise EnvironmentRefused(
                f"{cluster.num_nodes} nodes need --run-dir, a folder or bucket prefix that all "
                "of them reach, or --master-addr and --master-port, of node 0"
            )
        if options.launcher == "tensorflow":
            raise EnvironmentRefused("TF_CONFIG of several nodes needs --run-dir: addresses come through it")
    return cluster


def _given(options: Options, environ: Mapping[str, str]) -> Cluster | None:
    count, rank = options.num_nodes, options.node_rank
    if count is None:
        return None
    if rank is None and count > 1:
        raise EnvironmentRefused(f"--num-nodes is {count}, but --node-rank is not given")
    host, port = options.master_addr, options.master_port or 0
    if count > 1 and not options.run_dir:
        host = host or environ.get("MASTER_ADDR", "")
        port = port or whole(environ.get("MASTER_PORT", "")) or 0
    return Cluster(count, rank or 0, host, port, options.node_names)


def _vertex(_: Options, environ: Mapping[str, str]) -> Cluster | None:
    text = environ.get("CLUSTER_SPEC")
    if not text:
        return None
    try:
        spec = json.loads(text)
        pools, task = spec["cluster"], spec["task"]
        primary, workers = list(pools["workerpool0"]), list(pools.get("workerpool1") or ())
        kind, index = str(task["type"]), int(task["index"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise EnvironmentRefused(
            f"CLUSTER_SPEC is not what Vertex AI documents ({error!r}): {text[:200]}"
        ) from error
    if kind not in ("workerpool0", "workerpool1"):
        raise EnvironmentRefused(
            f"this replica is in {kind}, which trains nothing; start gputrain in pools 0 and 1 only"
        )
    nodes = primary + workers
    rank = index if kind == "workerpool0" else len(primary) + index
    names = [str(node).rpartition(":")[0] for node in nodes]
    return Cluster(len(nodes), rank, *_host_and_port(str(nodes[0])), names)


def _torchrun(_: Options, environ: Mapping[str, str]) -> Cluster | None:
    if not environ.get("PET_NNODES"):
        return None
    try:
        num_nodes, rank = int(environ["PET_NNODES"].split(":")[-1]), int(environ.get("PET_NODE_RANK", "0"))
    except ValueError as error:
        raise EnvironmentRefused(f"PET_NNODES and PET_NODE_RANK must be numbers: {error}") from error
    endpoint = environ.get("PET_RDZV_ENDPOINT", "")
    if environ.get("PET_MASTER_ADDR"):
        port = environ.get("PET_MASTER_PORT") or DEFAULT_PORT
        endpoint = f"{in_brackets(environ['PET_MASTER_ADDR'])}:{port}"
    where = _host_and_port(endpoint) if endpoint else ("", 0)
    return Cluster(num_nodes, rank, *where, nproc=whole(environ.get("PET_NPROC_PER_NODE", "")))


PLATFORMS: tuple[Callable[[Any, Any], Cluster | None], ...] = (_given, _vertex, _torchrun)
"""Each looks for one platform's names and answers None when they are not there."""


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text, str(DEFAULT_PORT)
    number = whole(port) or 0
    if not 0 < number <= LAST_PORT or not host:
        raise EnvironmentRefused(f"node 0 is at {text!r}, but that must be host:port, such as 10.0.0.2:29400")
    return host.strip("[]"), number
