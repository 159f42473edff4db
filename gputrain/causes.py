"""Why a job ended without success: one row per kind, for all platforms. Pure.

A backend knows how its platform shows a cause; what it means and what to do about it stand here alone. What
else a reader should know of it stands in docs/reference/errors.md.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import attrs

from gputrain.lifecycle import State


class Blame(enum.Enum):
    """Whose an end is, and so what may be tried by itself."""

    USER = "user"
    """The script's, the setting's or a person's wish: nothing is tried again."""
    QUOTA = "quota"
    """The account's: another region may have some."""
    CAPACITY = "capacity"
    """There were no machines: another place may have some."""
    PLATFORM = "platform"
    """The platform failed, not the code."""


@attrs.frozen
class Cause:
    """One way to end."""

    kind: str
    """The stable word: ``error.kind``, and the anchor on the page of errors."""
    title: str
    """Ends the sentence "bert failed on rank 3: ..."."""
    fix: str
    """What to do today."""
    fault: Blame = Blame.USER
    may_restart: bool = False
    """Whether ``max_restarts`` covers it."""
    state: State = State.FAILED
    """What it makes of a job that does not start again."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.title}"


_AGAIN = "submit it again to resume from its checkpoint, or set max_restarts="
_ELSEWHERE = "allow more regions, GPUs or provisioning models, or try again later"


def _not_yours(kind: str, title: str, fix: str = _AGAIN) -> Cause:
    """The row of an end that is the platform's: ``max_restarts`` covers it."""
    return Cause(kind, title, fix, Blame.PLATFORM, may_restart=True)


# fmt: off
EXCEPTION = Cause("exception", "the script raised",
    "fix the exception in its traceback")
CRASHED = Cause("crashed", "native code crashed",
    "look at the last lines for where each thread was; most often two packages bring other CUDAs")
KILLED = Cause("killed", "the rank was killed",
    "watch its memory: a smaller batch, fewer loader workers, a larger machine; else find its killer")
SIGNAL = Cause("signal", "a signal ended the rank",
    "look at the message for the signal, and find who sent it")
EXIT = Cause("exit", "the script ended with an exit code",
    "look at the last lines; a script that calls sys.exit tells no more")
LEFT_EARLY = Cause("left_early", "a rank left before the others were done",
    "let all ranks do the same number of steps: drop_last=True, or a sampler that pads")
HANG = Cause("hang", "the ranks stood still",
    "see that every rank comes to every collective; the message names those that did not, the traceback "
    "where the first of them stood. Where it was at work, raise hang_timeout")
GPU_FAULT = _not_yours("gpu_fault", "a GPU failed",
    fix=f"{_AGAIN}, elsewhere where machines are rented; tell Google of a reserved one that does it twice")
OUT_OF_MEMORY = Cause("out_of_memory", "the memory of the machine ran out",
    "take a machine with more memory, or a smaller batch or fewer loader workers")
GPU_OUT_OF_MEMORY = Cause("gpu_out_of_memory", "the memory of a GPU ran out",
    "take a smaller batch and accumulate gradients, shard the model, or take a GPU with more memory")
NODE_MISSING = _not_yours("node_missing", "a node never joined",
    fix="look whether its machine started, and whether the nodes reach each other over TCP")
NODE_LOST = _not_yours("node_lost", "a node went away while the job ran")
STOPPED = _not_yours("stopped", "it was asked to stop")
ENVIRONMENT = Cause("environment", "the ranks could not be started",
    "fix what the message names: the image, its Python, a secret or a setting")
REQUIREMENTS = Cause("requirements", "its requirements could not be installed",
    "fix the requirement that pip names, or name an index that it reaches, env={'PIP_INDEX_URL': '...'}, "
    "or give a VM a way out (Cloud NAT, external_ip=); another torch needs an image that has it")
COMMAND = Cause("command", "the image has no such command",
    "the image must have python3 on its PATH")
IMAGE = Cause("image", "the image could not be pulled",
    "check the image's name; grant roles/artifactregistry.reader on its repository to the Vertex AI "
    "service agent, service-PROJECT_NUMBER@gcp-sa-aiplatform-cc.iam.gserviceaccount.com")
BOOT = Cause("boot", "a VM could not start the job",
    "fix what the message names: the GPUs, the image or the bucket")
GUEST_SHUTDOWN = Cause("guest_shutdown", "a VM was shut down from inside",
    "remove what powers the machine off from the script or image")
INTERNAL = Cause("internal", "Vertex AI had an error of its own",
    "check that the image exists; then try again, or in another region", fault=Blame.PLATFORM)
JOB_PERMISSION = Cause("job_permission", "Google's service agent or the job's account lacks a permission",
    "grant what the message names, to the account that it names")
STOCKOUT_REGION = Cause("stockout_region", "there were no machines in any region that is allowed",
    _ELSEWHERE, fault=Blame.CAPACITY)
QUOTA_REGION = Cause("quota_region", "a quota is too small",
    "ask for more at https://console.cloud.google.com/iam-admin/quotas, or allow another region",
    fault=Blame.QUOTA)
PREEMPTED = _not_yours("preempted", "a Spot VM was reclaimed")
PREEMPTED_IN_CREATION = _not_yours("preempted_in_creation", "a VM was reclaimed while it was made")
HOST_ERROR = _not_yours("host_error", "the host of a VM failed")
MAINTENANCE = _not_yours("maintenance", "host maintenance ended a VM")
REBOOTED = _not_yours("rebooted", "a VM was restarted")
VANISHED = _not_yours("vanished", "a VM vanished without a trace")
LOST = Cause("lost", "its processes ended without a word",
    "look at this machine's log: it was restarted, or somebody killed them", fault=Blame.PLATFORM)
CANCELLED = Cause("cancelled", "it was cancelled",
    "submit it again to resume from its checkpoint", state=State.CANCELLED)
WITHDRAWN = Cause("withdrawn", "its submit was interrupted",
    "submit it again, also under the same key", state=State.CANCELLED)
STOPPED_BY_PERSON = Cause("stopped_by_person", "somebody stopped or deleted a VM",
    "ask who the message names; submit it again to resume from its checkpoint", state=State.CANCELLED)
TIME_LIMIT = Cause("time_limit", "max_run_duration was reached",
    "if it made progress, raise max_run_duration and submit it again to resume from its checkpoint",
    state=State.EXPIRED)
WAIT_LIMIT = Cause("wait_limit", "no machines came within max_wait_duration",
    f"raise max_wait_duration; {_ELSEWHERE}", fault=Blame.CAPACITY, state=State.EXPIRED)
UNSTARTED = Cause("unstarted", "it was never started",
    "submit it again under the same key", fault=Blame.PLATFORM, state=State.EXPIRED)
UNKNOWN = Cause("unknown", "for an unknown reason",
    "look at the log, and at the job in the console")
# fmt: on

CAUSES: Mapping[str, Cause] = {row.kind: row for row in tuple(globals().values()) if isinstance(row, Cause)}
"""Kind -> its row: all of those above."""


def of(kind: str) -> Cause:
    """The row of a kind; that of ``unknown`` for one that has no row.

    >>> of("preempted").title
    'a Spot VM was reclaimed'
    """
    return CAUSES.get(kind, UNKNOWN)
