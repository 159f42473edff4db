"""Every name the entrypoint shares with the rest of gputrain: variables, exit codes, markers, the result.

Backends write these names, the agent and ``gputrain.ddp`` read them. docs/reference/entrypoint.md tells the
meaning of each.
"""

from __future__ import annotations

ENVIRONMENT: dict[str, tuple[str | None, str, str]] = {}
"""Variable the agent reads -> (flag that overrides it, default, meaning)."""


def _env(name: str, default: str, meaning: str, has_flag: bool = True) -> str:
    flag = "--" + name[len("GPUTRAIN_") :].lower().replace("_", "-")
    ENVIRONMENT[name] = (flag if has_flag else None, default, meaning)
    return name


# What the agent reads. A flag on the command line wins over its variable.
JOB_ID = _env("GPUTRAIN_JOB_ID", "", "id of the job", has_flag=False)
ATTEMPT = _env("GPUTRAIN_ATTEMPT", "0", "attempt of the job", has_flag=False)
RUN_DIR = _env(
    "GPUTRAIN_RUN_DIR",
    "",
    "where nodes meet: a folder, or gs://BUCKET/PREFIX; empty: each reports its own ranks",
)
NUM_NODES = _env("GPUTRAIN_NUM_NODES", "", "how many nodes; empty: ask the platform, else 1")
NODE_RANK = _env("GPUTRAIN_NODE_RANK", "", "this node, from 0; empty: ask the platform, else 0")
NODE_NAMES = _env("GPUTRAIN_NODE_NAMES", "", "names of all nodes, comma separated, for messages")
NPROC_PER_NODE = _env("GPUTRAIN_NPROC_PER_NODE", "auto", "ranks on this node; auto: one per GPU, else 1")
LAUNCHER = _env(
    "GPUTRAIN_LAUNCHER",
    "torchrun-env",
    "torchrun-env: ranks with torchrun's environment; tensorflow: one process per node with TF_CONFIG; "
    "none: one process per node, its environment as it is",
)
CHECKPOINT_DIR = _env("GPUTRAIN_CHECKPOINT_DIR", "", "where state is saved; empty: AIP_CHECKPOINT_DIR")
OUTPUT_DIR = _env("GPUTRAIN_OUTPUT_DIR", "", "where results go; empty: AIP_MODEL_DIR")
CODE_DIR = _env("GPUTRAIN_CODE_DIR", "", "folder of the code, where it goes with the machine")
KEEP_OUTPUTS = _env("GPUTRAIN_KEEP_OUTPUTS", "", "1: files beside the code are copied to where results go")
RESULT_DIR = _env("GPUTRAIN_RESULT_DIR", "", "folder of result-<node rank>.json; empty: no file")
LOG_DIR = _env("GPUTRAIN_LOG_DIR", "", "folder of a plain rank-<rank>.log per rank; empty: none")
LOG_FORMAT = _env("GPUTRAIN_LOG_FORMAT", "text", "text: [rank] line; json: an object per line")
JOIN_TIMEOUT = _env("GPUTRAIN_JOIN_TIMEOUT", "1800", "seconds to wait for all nodes")
GRACE = _env("GPUTRAIN_GRACE", "25", "seconds between asking ranks to stop and killing them")
HANG_TIMEOUT = _env(
    "GPUTRAIN_HANG_TIMEOUT", "", "seconds of silence of all ranks that end a job; empty: never"
)
MIN_NODES = _env("GPUTRAIN_MIN_NODES", "", "fewest nodes; empty: all", has_flag=False)
MASTER_ADDR = _env("GPUTRAIN_MASTER_ADDR", "", "node 0; empty: by the run directory, else MASTER_ADDR")
MASTER_PORT = _env("GPUTRAIN_MASTER_PORT", "", "port of rank 0's store; empty: a free one, or MASTER_PORT")
LOCAL_ADDR = _env("GPUTRAIN_LOCAL_ADDR", "", "address the other nodes reach this one by; empty: found out")

NCCL_NET = _env("GPUTRAIN_NCCL_NET", "", "network that NCCL should use; empty: any", has_flag=False)

RANK_ENVIRONMENT = (NODE_ADDRS, ERROR_FILE) = ("GPUTRAIN_NODE_ADDRS", "GPUTRAIN_ERROR_FILE")
"""What the agent adds for ranks. Under the torchrun-env launcher they also get torchrun's own variables."""

DONE, BAD_ENVIRONMENT, NODE_LOST, STOPPED = 0, 64, 69, 75
EXIT_CODES = {
    DONE: "every rank of every node ended with 0",
    BAD_ENVIRONMENT: "the agent cannot start: an option, the environment or the target is wrong",
    NODE_LOST: "a node never came, or was lost while the job ran, or a GPU of it failed",
    STOPPED: "asked to stop, the ranks saved and left with this code; run the job again to resume",
}
"""Exit code of the agent -> meaning. Any other is the first failing rank's own (128 + n for signal n)."""

LONGEST_LINE = 1 << 16
"""Bytes of the longest line passed on whole; Cloud Logging takes entries of up to 256 KiB."""

METRIC_MARKER = "GPUTRAIN_METRIC "
"""Starts a line of rank 0 that reports numbers; a JSON object follows."""

GAUGE_MARKER = "GPUTRAIN_GAUGE "
"""Starts a line of an agent, every 15 s, that tells what its ranks and GPUs use; a JSON object follows."""

RESULT_MARKER = "GPUTRAIN_RESULT "
"""Starts the last line of every agent; the result document follows as JSON."""

RESULT_FILE = "result-{node_rank}.json"
"""The result document in the result folder; it appears whole or not at all."""

LOG_PART = "logs/{node_rank}-{offset:015}"
"""A part of a node's log below the folder of its attempt, by the offset at which it begins in that log."""

LOG_PART_BYTES = 256 << 10
"""A part that is at least so long is finished; the next one begins where it ends."""

ERROR_FOLDER = "gputrain-"
"""How the name of the folder beside it begins in which ranks leave their error documents."""

EXITED = "-ended"
"""After the name of a rank's error document: the file of the exit code with which its script ended."""

BY_SIGNAL = 128
"""Exit codes above are of signals."""

BEAT_FILE = "beat"
"""Beside the error documents; its time is that of the last step of any rank of the node."""

STACKS_ASK = "stacks"
"""A file of this name in the result folder asks where the ranks stand; it holds the question's nonce."""

STACKS_NONCE = r"[0-9a-f]{8,64}"
"""What a nonce is like: it becomes part of a file's name."""

RANK_STACK_FILE = "stacks-{}-{}-{}.json"
"""A rank's stack beside the error documents, by rank, local rank and pid."""

STACKS_FILE = "stacks-{nonce}-{node_rank}.json"
"""A node's answer beside it, whole too."""

FLIGHT_RECORDER = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""How many collectives torch remembers for each rank; since 2.9 it warns of the second name."""
FLIGHT_ENTRIES = "2000"

RECORD, ATTEMPT_ID, CLAIM = "GPUTRAIN_RECORD", "GPUTRAIN_ATTEMPT_ID", "GPUTRAIN_CLAIM"
"""Variables of a container that name its job's record, its attempt, and the attempt's claim: two objects of
the job's bucket. docs/design/record.md says what a machine does by them; ranks do not get them."""

RANK_LOG_FILE = "rank-{rank}.log"
"""A rank's plain log in the log folder."""

ASIDE = "import sys; del sys.path[: sys.path[0] == '']; "
"""The first words of a text for ``python -c``: Python looks into the folder it stands in before its standard
library, and would run a ``json.py`` there that the user's script never sees. ``-P`` is new in 3.11."""

PROGRAM = "-c", ASIDE + "import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
"""Python's words that stand for ``-m``; the module's name follows."""

RESULT_SCHEMA = 1
"""Version of the result document."""

RESULT_FIELDS = (
    R_SCHEMA, R_JOB, R_ATTEMPT, R_NODE_RANK, R_NUM_NODES, R_STATE, R_EXIT_CODE,
    R_CAUSE, R_STOP, R_RANKS, R_LOST_LINES, R_SILENT_S, R_STARTED_AT, R_ENDED_AT,
) = (
    "schema", "job", "attempt", "node_rank", "num_nodes", "state", "exit_code",
    "cause", "stop", "ranks", "lost_lines", "silent_s", "started_at", "ended_at",
)  # fmt: skip
"""Fields of the result document."""

CAUSE_FIELDS = (
    C_KIND, C_RANK, C_LOCAL_RANK, C_NODE_RANK, C_HOST, C_EXCEPTION,
    C_MESSAGE, C_TRACEBACK, C_EXIT_CODE, C_SIGNAL, C_LAST_LINES,
) = (
    "kind", "rank", "local_rank", "node_rank", "host", "exception",
    "message", "traceback", "exit_code", "signal", "last_lines",
)  # fmt: skip
"""Fields of the document's ``cause``."""

CAUSE_KINDS = (
    EXCEPTION, SIGNAL, EXIT, LEFT_EARLY, OUT_OF_MEMORY, GPU_MEMORY, NODE_MISSING,
    NODE_LOSS, GPU_FAULT, HANG, STOP_IGNORED, REFUSED, UNMET,
) = (
    "exception", "signal", "exit", "left_early", "out_of_memory", "gpu_out_of_memory", "node_missing",
    "node_lost", "gpu_fault", "hang", "stopped", "environment", "requirements",
)  # fmt: skip
"""Values of the cause's ``kind``."""

STATES = STATE_DONE, STATE_STOPPED, STATE_FAILED = "done", "stopped", "failed"
"""Values of the document's ``state``: the verdict on the whole job, the same on every node."""

SCHEMA = 2
"""Version of the document in which a supervisor tells how far its job has come; the same on every board."""

WAITING, STARTING, RUNNING, STOPPING, INTERRUPTED, ENDED = (
    "waiting", "starting", "running", "stopping", "interrupted", "ended"
)  # fmt: skip
PHASES = (WAITING, STARTING, RUNNING, STOPPING, INTERRUPTED, ENDED)
"""Values of ``phase``."""

CANCELLED = "cancelled"
RUN_LIMIT, WAIT_LIMIT = "max_run_duration", "max_wait_duration"
BOOT, RESTARTED, HALTED, ABSENT = "boot", "restarted", "halted", "absent"
PEER, SHUTDOWN, SUPERSEDED = "peer", "shutdown", "superseded"
"""Values of ``why``: what made the supervisor stop its agents, or start none; empty where nothing did."""

UNABLE = (ABSENT, BOOT, HALTED, RESTARTED)
"""Why a node ended that never trained: the agents of the others may not know."""

TOO_EARLY = (ABSENT, HALTED)
"""Of these, what a VM ends by that Google's queue made before it had room for all: another gets its name."""
