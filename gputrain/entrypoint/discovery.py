"""Which node this is and where node 0 listens: a table of platforms, read in order of precedence.

Vertex AI's own RANK and WORLD_SIZE count nodes, over all pools, and are undocumented: they are not read.
Its names are those of services, not of hosts, and only port 2222 (and 3333) passes by name.
Sources: Vertex AI distributed training documentation and public launchers, read 2026-11-20.
"""

from __future__ import annotations

import json

from . import contract
from .options import LAST_PORT, EnvironmentRefused, is_address, whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping, Optional, Sequence, Tuple

    from .options import Options

DEFAULT_PORT = 29400
"""Where node 0 listens when only its host is known; the port torchrun's rendezvous uses."""


class Cluster:
    """The nodes of a job as one node sees them."""

    def __init__(
        self,
        num_nodes: int,
        node_rank: int,
        coordinator: str = "",
        names: Sequence[str] = (),
        nproc: Optional[int] = None,
    ) -> None:
        self.num_nodes = num_nodes
        self.node_rank = node_rank
        self.host, self.port = _host_and_port(coordinator) if coordinator else ("", 0)
        self.names = tuple(names) if len(names) == num_nodes else ()
        self.nproc = nproc

    def name_of(self, node_rank: int) -> str:
        """How messages speak of a node, with its name where one is known."""
        return f"node {node_rank} ({self.names[node_rank]})" if self.names else f"node {node_rank}"


def discover(options: Options, environ: Mapping[str, str]) -> Cluster:
    """The cluster this agent belongs to: told, else Vertex's CLUSTER_SPEC, else PET_*, else one node.

    Raises EnvironmentRefused when what was found contradicts itself.
    """
    for find in PLATFORMS:
        cluster = find(options, environ)
        if cluster is not None:
            break
    else:
        cluster = Cluster(1, 0)
    if not 0 <= cluster.node_rank < cluster.num_nodes:
        raise EnvironmentRefused(
            f"node rank {cluster.node_rank} does not exist among {cluster.num_nodes} nodes; they count from 0"
        )
    if cluster.num_nodes > 1 and not cluster.host:
        raise EnvironmentRefused(f"{cluster.num_nodes} nodes need --coordinator, the host:port of node 0")
    if cluster.num_nodes > 1 and not options.token:
        raise EnvironmentRefused(
            f"{cluster.num_nodes} nodes need {contract.TOKEN}: one long random word, the same on all of them"
        )
    return cluster


def _told(options: Options, _: Mapping[str, str]) -> Optional[Cluster]:
    if options.num_nodes is None:
        return None
    rank = options.node_rank
    if rank is None:
        if options.num_nodes > 1:
            raise EnvironmentRefused(f"--num-nodes is {options.num_nodes}, but --node-rank is not given")
        rank = 0
    return Cluster(options.num_nodes, rank, options.coordinator, options.node_names)


def _vertex(_: Options, environ: Mapping[str, str]) -> Optional[Cluster]:
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
            f"this replica is in {kind}, which trains nothing; start the agent in pools 0 and 1 only"
        )
    nodes = primary + workers
    rank = index if kind == "workerpool0" else len(primary) + index
    return Cluster(len(nodes), rank, str(nodes[0]), [str(node).rpartition(":")[0] for node in nodes])


def _torchrun(_: Options, environ: Mapping[str, str]) -> Optional[Cluster]:
    if not environ.get("PET_NNODES"):
        return None
    nproc = environ.get("PET_NPROC_PER_NODE", "")
    try:
        num_nodes, rank = int(environ["PET_NNODES"].split(":")[-1]), int(environ.get("PET_NODE_RANK", "0"))
    except ValueError as error:
        raise EnvironmentRefused(f"PET_NNODES and PET_NODE_RANK must be numbers: {error}") from error
    coordinator = environ.get("PET_RDZV_ENDPOINT", "")
    if environ.get("PET_MASTER_ADDR"):
        host = environ["PET_MASTER_ADDR"]
        host = f"[{host}]" if ":" in host and is_address(host) else host
        coordinator = f"{host}:{environ.get('PET_MASTER_PORT') or DEFAULT_PORT}"
    return Cluster(num_nodes, rank, coordinator, nproc=whole(nproc))


PLATFORMS: Tuple[Callable[[Any, Any], Optional[Cluster]], ...] = (_told, _vertex, _torchrun)
"""Each looks for one platform's names and answers None when they are not there."""


def _host_and_port(text: str) -> Tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text, str(DEFAULT_PORT)
    number = whole(port) or 0
    if not 0 < number <= LAST_PORT or not host:
        raise EnvironmentRefused(
            f"the coordinator is {text!r}, but must be host:port, such as 10.0.0.2:29400"
        )
    host = host.strip("[]")
    if host.lower().startswith("fe80:"):
        raise EnvironmentRefused(
            f"the coordinator is {text!r}, but an address of the link means another interface on each node; "
            "use another address of node 0, or its name"
        )
    return host, number
