"""What this node was asked to do, and which node it is.

Options are read from the command line, else the environment, else the defaults; the place among the nodes as
given, else by a table of platforms. Vertex AI's own RANK, WORLD_SIZE and MASTER_ADDR count nodes, over all
pools, and are undocumented: they are not read. Its names are those of services, not of hosts.
Sources: Vertex AI distributed training documentation and public launchers, read 2026-11-20.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence

from . import contract
from .network import in_brackets, is_address

LAST_PORT = 65535
MANY = 1 << 16
"""Nodes of a job, and ranks of a node, at most."""

_PLATFORM = {contract.CHECKPOINT_DIR: "AIP_CHECKPOINT_DIR", contract.OUTPUT_DIR: "AIP_MODEL_DIR"}


class EnvironmentRefused(Exception):
    """The node cannot start; the text says what is wrong and what to do."""


class Program:
    """The user's program, by the words after ``--``: a Python script, a module, or any other command.

    >>> Program(["train.py", "--lr", "1"]).kind, Program(["-m", "pkg.train"]).kind
    ('script', 'module')
    """

    def __init__(self, words: Sequence[str]) -> None:
        if not words:
            raise EnvironmentRefused("nothing to run: end the command with `-- train.py args`")
        self.kind = "script" if words[0].endswith(".py") else "program"
        self.argv = list(words)
        if words[0] == "-m":
            self.kind = "module"
            del self.argv[0]
            if not self.argv:
                raise EnvironmentRefused("-m needs the name of a module: `-- -m package.train args`")


class Options:
    """The settings of one node, read once and never changed."""

    def __init__(self, settings: Mapping[str, str], target: Program) -> None:
        self._settings = settings
        self.target = target
        self.job = settings[contract.JOB_ID]
        self.attempt = settings[contract.ATTEMPT]
        self.run_dir = settings[contract.RUN_DIR]
        self.num_nodes = self._number(contract.NUM_NODES, least=1)
        self.node_rank = self._number(contract.NODE_RANK, least=0)
        self.node_names = tuple(filter(None, settings[contract.NODE_NAMES].split(",")))
        auto = settings[contract.NPROC_PER_NODE] in ("auto", "gpu", "")
        self.nproc_per_node = None if auto else self._number(contract.NPROC_PER_NODE, least=1)
        self.launcher = self._one_of(contract.LAUNCHER, "torchrun-env", "tensorflow", "none")
        self.log_format = self._one_of(contract.LOG_FORMAT, "text", "json")
        self.log_dir = settings[contract.LOG_DIR]
        self.result_dir = settings[contract.RESULT_DIR]
        self.output_dir = settings[contract.OUTPUT_DIR]
        self.checkpoint_dir = settings[contract.CHECKPOINT_DIR]
        self.code_dir = settings[contract.CODE_DIR]
        self.keeps_outputs = self._one_of(contract.KEEP_OUTPUTS, "", "1") == "1"
        if self.keeps_outputs and not self.output_dir:
            raise EnvironmentRefused(f"{_label(contract.KEEP_OUTPUTS)} needs {_label(contract.OUTPUT_DIR)}")
        self.join_timeout = self._seconds(contract.JOIN_TIMEOUT)
        self.hang_timeout = self._seconds(contract.HANG_TIMEOUT) if settings[contract.HANG_TIMEOUT] else None
        self.grace = self._seconds(contract.GRACE)
        self.master_addr = settings[contract.MASTER_ADDR]
        self.master_port = self._number(contract.MASTER_PORT, least=1, most=LAST_PORT)
        self.nccl_net = settings[contract.NCCL_NET]
        self.local_addr = settings[contract.LOCAL_ADDR]
        if self.local_addr and not is_address(self.local_addr):
            raise self._refused(contract.LOCAL_ADDR, "a numeric address")

    @property
    def starts_ranks(self) -> bool:
        """Whether the node runs one process per rank, rather than one for the whole node."""
        return self.launcher == "torchrun-env"

    def for_ranks(self) -> dict[str, str]:
        """The variables every rank sees: all that were set, except the run directory, which is the nodes'."""
        return {name: value for name, value in self._settings.items() if value and name != contract.RUN_DIR}

    def _number(self, name: str, least: int, most: int = MANY) -> int | None:
        text = self._settings[name]
        if not text:
            return None
        value = whole(text)
        if value is None or not least <= value <= most:
            raise self._refused(name, f"a whole number of at least {least} and at most {most}")
        return value

    def _seconds(self, name: str) -> float:
        with contextlib.suppress(ValueError):
            if 0 <= (value := float(self._settings[name])) < 1e9:
                return value
        raise self._refused(name, "a number of seconds")

    def _one_of(self, name: str, *allowed: str) -> str:
        if self._settings[name] not in allowed:
            raise self._refused(name, " or ".join(allowed))
        return self._settings[name]

    def _refused(self, name: str, allowed: str) -> EnvironmentRefused:
        return EnvironmentRefused(f"{_label(name)} is {self._settings[name]!r}, but must be {allowed}")


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Options:
    """The options of this node. Raises EnvironmentRefused for one that is unknown or makes no sense."""
    given, words = _split(argv)
    settings = {}
    for name, (_, default, _) in contract.ENVIRONMENT.items():
        value = given.get(name, environ.get(name, ""))
        settings[name] = value or environ.get(_PLATFORM.get(name, ""), "") or default
    return Options(settings, Program(words))


def usage() -> str:
    """The text that ``--help`` shows."""
    words = "train.py args | -m module args | program args"
    lines = [f"usage: python -m gputrain.entrypoint [options] -- {words}", ""]
    for name, (flag, default, meaning) in contract.ENVIRONMENT.items():
        lines.append(f"  {flag or '(no flag)'}, {name}" + (f" [{default}]" if default else ""))
        lines.append(f"      {meaning}")
    return "\n".join(lines)


def _split(argv: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    flags = {flag: name for name, (flag, _, _) in contract.ENVIRONMENT.items() if flag}
    given: dict[str, str] = {}
    words = list(argv)
    while words and words[0].startswith("--") and words[0] != "--":
        flag, equals, value = words.pop(0).partition("=")
        if flag not in flags:
            raise EnvironmentRefused(f"there is no option {flag}; the options are {', '.join(sorted(flags))}")
        if not equals:
            if not words:
                raise EnvironmentRefused(f"{flag} needs a value")
            value = words.pop(0)
        given[flags[flag]] = value
    return given, words[1:] if words[:1] == ["--"] else words


def whole(text: str) -> int | None:
    """The number that plain digits write; None for anything else, which `int` may take or `isdigit` pass.

    >>> whole("29400"), whole("²"), whole("-1"), whole("9" * 5000)
    (29400, None, None, None)
    """
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _label(name: str) -> str:
    flag = contract.ENVIRONMENT[name][0]
    return f"{flag} ({name})" if flag else name


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

    def name_of(self, node_rank: int) -> str:
        """How messages speak of a node, with its name where one is known."""
        return f"node {node_rank} ({self.names[node_rank]})" if self.names else f"node {node_rank}"


def find_cluster(options: Options, environ: Mapping[str, str]) -> Cluster:
    """The cluster of this node: as given, else Vertex AI's CLUSTER_SPEC, else PET_*, else one node.

    Raises EnvironmentRefused when what was found contradicts itself.
    """
    cluster = _given(options, environ) or vertex_cluster(environ) or _torchrun(environ) or Cluster(1, 0)
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


def vertex_cluster(environ: Mapping[str, str]) -> Cluster | None:
    """By CLUSTER_SPEC; None where there is none."""
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


def _torchrun(environ: Mapping[str, str]) -> Cluster | None:
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


def _host_and_port(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text, str(DEFAULT_PORT)
    number = whole(port) or 0
    if not 0 < number <= LAST_PORT or not host:
        raise EnvironmentRefused(f"node 0 is at {text!r}, but that must be host:port, such as 10.0.0.2:29400")
    return host.strip("[]"), number
