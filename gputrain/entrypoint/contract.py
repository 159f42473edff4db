"""Every name the entrypoint shares with the rest of gputrain: variables, exit codes, markers, the result.

One row per fact and nothing else here: backends write these names, the agent and ``gputrain.ddp`` read them.
``docs/reference/entrypoint.md`` is checked against this module.
"""

from __future__ import annotations

ENVIRONMENT: dict[str, tuple[str | None, str, str]] = {}
"""Variable the agent reads -> (flag that overrides it, default, meaning)."""

RANK_ENVIRONMENT: dict[str, str] = {}
"""Variable the agent gives to every rank, beside torchrun's own -> meaning."""

EXIT_CODES: dict[int, str] = {}
"""Exit code of the agent -> meaning. Any other is the first failing rank's own (128 + n for signal n)."""

RESULT_FIELDS: dict[str, str] = {}
"""Field of the result document -> meaning."""

CAUSE_FIELDS: dict[str, str] = {}
"""Field of the document's ``cause`` -> meaning."""

CAUSE_KINDS: dict[str, str] = {}
"""Value of the cause's ``kind`` -> meaning."""

STATES: dict[str, str] = {}
"""Value of the document's ``state`` -> meaning."""


def _env(name: str, default: str, meaning: str, has_flag: bool = True) -> str:
    flag = "--" + name[len("GPUTRAIN_") :].lower().replace("_", "-")
    ENVIRONMENT[name] = (flag if has_flag else None, default, meaning)
    return name


def _row(table: dict[str, str], name: str, meaning: str) -> str:
    table[name] = meaning
    return name


def _code(code: int, meaning: str) -> int:
    EXIT_CODES[code] = meaning
    return code


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

# What the agent adds for ranks. Under the torchrun-env launcher they also get torchrun's own variables.
NODE_ADDRS = _row(RANK_ENVIRONMENT, "GPUTRAIN_NODE_ADDRS", "addresses of all nodes, comma separated")
ERROR_FILE = _row(RANK_ENVIRONMENT, "GPUTRAIN_ERROR_FILE", "its error document (TORCHELASTIC_ERROR_FILE)")

DONE = _code(0, "every rank of every node ended with 0")
BAD_ENVIRONMENT = _code(64, "the agent cannot start: an option, the environment or the target is wrong")
NODE_LOST = _code(69, "a node never came, or was lost while the job ran, or a GPU of it failed")
STOPPED = _code(75, "asked to stop, the ranks saved and left with this code; run the job again to resume")

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

R_SCHEMA = _row(RESULT_FIELDS, "schema", "version of this document, 1")
R_JOB = _row(RESULT_FIELDS, "job", "GPUTRAIN_JOB_ID")
R_ATTEMPT = _row(RESULT_FIELDS, "attempt", "GPUTRAIN_ATTEMPT, as text")
R_NODE_RANK = _row(RESULT_FIELDS, "node_rank", "the node that wrote the document")
R_NUM_NODES = _row(RESULT_FIELDS, "num_nodes", "how many nodes the job has")
R_STATE = _row(RESULT_FIELDS, "state", "verdict on the whole job, the same on every node: see the states")
R_EXIT_CODE = _row(RESULT_FIELDS, "exit_code", "what the agent exits with, the same on every node")
R_CAUSE = _row(RESULT_FIELDS, "cause", "the first cause of the failure, on whichever node it was, or null")
R_STOP = _row(RESULT_FIELDS, "stop", "who asked for the stop, {reason, node_rank}, or null")
R_RANKS = _row(RESULT_FIELDS, "ranks", "ranks of this node: {rank, local_rank, exit_code, signal} each")
R_LOST_LINES = _row(RESULT_FIELDS, "lost_lines", "log lines of this node that could not be written; 0: none")
R_SILENT_S = _row(RESULT_FIELDS, "silent_s", "seconds since this node's last line, at a stop, or null")
R_STARTED_AT = _row(RESULT_FIELDS, "started_at", "when this agent started, RFC 3339, UTC")
R_ENDED_AT = _row(RESULT_FIELDS, "ended_at", "when this agent came to its verdict, RFC 3339, UTC")

C_KIND = _row(CAUSE_FIELDS, "kind", "what happened: see the kinds")
C_RANK = _row(CAUSE_FIELDS, "rank", "global rank, or null when a whole node is meant")
C_LOCAL_RANK = _row(CAUSE_FIELDS, "local_rank", "rank on its node, or null")
C_NODE_RANK = _row(CAUSE_FIELDS, "node_rank", "node it happened on")
C_HOST = _row(CAUSE_FIELDS, "host", "host name of that node, as far as known")
C_EXCEPTION = _row(CAUSE_FIELDS, "exception", "class name of the exception, or null")
C_MESSAGE = _row(CAUSE_FIELDS, "message", "one sentence: the exception's text, or what was seen")
C_TRACEBACK = _row(CAUSE_FIELDS, "traceback", "the rank's own traceback as text, or null")
C_EXIT_CODE = _row(CAUSE_FIELDS, "exit_code", "exit code of the rank, 128 + n for signal n, or null")
C_SIGNAL = _row(CAUSE_FIELDS, "signal", "name of the signal that ended it, such as SIGSEGV, or null")
C_LAST_LINES = _row(CAUSE_FIELDS, "last_lines", "the last lines the rank wrote, oldest first")

EXCEPTION = _row(CAUSE_KINDS, "exception", "the script raised")
SIGNAL = _row(CAUSE_KINDS, "signal", "a signal ended the rank, such as SIGSEGV")
EXIT = _row(CAUSE_KINDS, "exit", "the rank ended with a non-zero exit code and no exception")
LEFT_EARLY = _row(CAUSE_KINDS, "left_early", "the rank ended with 0 while the others still needed it")
OUT_OF_MEMORY = _row(CAUSE_KINDS, "out_of_memory", "the kernel killed the rank because memory ran out")
GPU_MEMORY = _row(CAUSE_KINDS, "gpu_out_of_memory", "the script raised for want of memory of its GPU")
NODE_MISSING = _row(CAUSE_KINDS, "node_missing", "a node never joined")
NODE_LOSS = _row(CAUSE_KINDS, "node_lost", "a node's agent went away while the job ran")
GPU_FAULT = _row(CAUSE_KINDS, "gpu_fault", "a GPU failed: its driver says so, which counts first")
HANG = _row(CAUSE_KINDS, "hang", "no rank said, reported or stepped anything for the hang timeout")
STOP_IGNORED = _row(CAUSE_KINDS, "stopped", "asked to stop, the rank did not save and leave in time")
REFUSED = _row(CAUSE_KINDS, "environment", "the agent could not start its ranks")
UNMET = _row(CAUSE_KINDS, "requirements", "what the job requires could not be installed")

STATE_DONE = _row(STATES, "done", "every rank ended with 0")
STATE_STOPPED = _row(STATES, "stopped", "ended by a stop; the exit code is 75 when every rank saved")
STATE_FAILED = _row(STATES, "failed", "ended by its cause")

SCHEMA = 2
"""Version of the document in which a keeper tells how far its job has come; the same on every board."""

WAITING, STARTING, RUNNING, STOPPING, INTERRUPTED, ENDED = (
    "waiting", "starting", "running", "stopping", "interrupted", "ended"
)  # fmt: skip
PHASES = (WAITING, STARTING, RUNNING, STOPPING, INTERRUPTED, ENDED)
"""Values of ``phase``."""

CANCELLED = "cancelled"
RUN_LIMIT, WAIT_LIMIT = "max_run_duration", "max_wait_duration"
BOOT, RESTARTED, HALTED, ABSENT = "boot", "restarted", "halted", "absent"
PEER, SHUTDOWN, SUPERSEDED = "peer", "shutdown", "superseded"
"""Values of ``why``: what made the keeper stop its agents, or start none; empty where nothing did."""

UNABLE = (ABSENT, BOOT, HALTED, RESTARTED)
"""Why a node ended that never trained: the agents of the others may not know."""

TOO_EARLY = (ABSENT, HALTED)
"""Of these, what a VM ends by that Google's queue made before it had room for all: another gets its name."""
