"""Why a job ended without success: one row a kind, whatever the platform. Pure.

A backend knows how its platform tells a cause; what it means and what to do about it stand here alone.
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


@attrs.frozen(kw_only=True)
class Cause:
    """One way to end."""

    kind: str
    """The stable word: ``error.kind``, and the anchor on the page of errors."""
    title: str
    """Ends the sentence "bert failed on rank 3: ..."."""
    fix: str
    """What to do today."""
    advice: str
    """What else a reader should know, for the page of errors."""
    fault: Blame = Blame.USER
    may_restart: bool = False
    """Whether ``max_restarts`` covers it."""
    state: State = State.FAILED
    """What it makes of a job that does not start again."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.title}"


_AGAIN = "submit it again to resume from its checkpoint, or set max_restarts="
_ELSEWHERE = "allow more regions, GPUs or provisioning models, or try again later"


def _not_yours(kind: str, title: str, advice: str, fix: str = _AGAIN) -> Cause:
    """The row of an end that is the platform's: ``max_restarts`` covers it."""
    fault = Blame.PLATFORM
    return Cause(kind=kind, title=title, fix=fix, advice=advice, fault=fault, may_restart=True)


EXCEPTION = Cause(
    kind="exception",
    title="the script raised",
    fix="fix the exception in the traceback below",
    advice="The traceback is the first failing rank's; errors that it caused on other ranks are left out.",
)
CRASHED = Cause(
    kind="crashed",
    title="native code crashed",
    fix="look at the last lines for where each thread was; most often two packages bring other CUDAs",
    advice="SIGSEGV, SIGBUS, SIGILL, SIGFPE or SIGABRT: no exception of Python's, but a crash below it."
    " `error.exit_code` is 128 and the number of the signal.",
)
KILLED = Cause(
    kind="killed",
    title="the rank was killed",
    fix="watch its memory: a smaller batch, fewer loader workers, a larger machine; else find its killer",
    advice="SIGKILL, exit code 137. Where the kernel says that memory ran out, it is"
    " [out_of_memory](#out_of_memory); else it was a limit of a container's, or a person.",
)
SIGNAL = Cause(
    kind="signal",
    title="a signal ended the rank",
    fix="look at the message for the signal, and find who sent it",
    advice="`error.exit_code` is 128 and the number of the signal.",
)
EXIT = Cause(
    kind="exit",
    title="the script ended with an exit code",
    fix="look at the last lines; a script that calls sys.exit tells no more",
    advice="No exception was seen, so there is no traceback.",
)
LEFT_EARLY = Cause(
    kind="left_early",
    title="a rank left before the others were done",
    fix="let all ranks do the same number of steps: drop_last=True, or a sampler that pads",
    advice="It ended with 0 while its peers still waited for it in a collective.",
)
HANG = Cause(
    kind="hang",
    title="the ranks stood still",
    fix="see that every rank comes to every collective; the message names those that did not, the traceback "
    "where the first of them stood. Where it was at work, raise hang_timeout",
    advice="No rank said, reported or stepped anything for `hang_timeout`. `error.traceback` is the stack of"
    " the rank that held up the others, the most recent call first; the log has the stacks of all.",
)
GPU_FAULT = _not_yours(
    kind="gpu_fault",
    title="a GPU failed",
    fix=f"{_AGAIN}, elsewhere where machines are rented; tell Google of a reserved one that does it twice",
    advice="The driver says so: an Xid that no script causes, an uncorrectable memory error, an action that"
    " it wants taken. What the ranks say, most often a CUDA error, is the effect; the log has it.",
)
OUT_OF_MEMORY = Cause(
    kind="out_of_memory",
    title="the memory of the machine ran out",
    fix="take a machine with more memory, or a smaller batch or fewer loader workers",
    advice="The machine's memory; for the GPU's see [gpu_out_of_memory](#gpu_out_of_memory).",
)
GPU_OUT_OF_MEMORY = Cause(
    kind="gpu_out_of_memory",
    title="the memory of a GPU ran out",
    fix="take a smaller batch and accumulate gradients, shard the model, or take a GPU with more memory",
    advice="The traceback says how much was asked for, and the GPUs' metrics of the job how the memory grew.",
)
NODE_MISSING = _not_yours(
    kind="node_missing",
    title="a node never joined",
    fix="look whether its machine started, and whether the nodes reach each other over TCP",
    advice="`error.node_rank` is the one that is missing. On Compute Engine a network of one's own needs"
    " a firewall rule for TCP between the VMs.",
)
NODE_LOST = _not_yours(
    kind="node_lost",
    title="a node went away while the job ran",
    advice="Its machine or its agent ended without a word.",
)
STOPPED = _not_yours(
    kind="stopped",
    title="it was asked to stop",
    advice="Somebody, or the platform, sent the ranks a signal. Those that heed it have saved.",
)
ENVIRONMENT = Cause(
    kind="environment",
    title="the ranks could not be started",
    fix="fix what the message names: the image, its Python, a secret or a setting",
    advice="Nothing of the script has run.",
)
REQUIREMENTS = Cause(
    kind="requirements",
    title="its requirements could not be installed",
    fix="fix the requirement that pip names, or name an index that it reaches, env={'PIP_INDEX_URL': '...'},"
    " or give a VM a way out (Cloud NAT, external_ip=); another torch needs an image that has it",
    advice="Nothing of the script has run. `error.message` has pip's own sentences, `error.last_lines` what"
    " it said before. torch and NVIDIA's libraries keep the versions that the image has.",
)
COMMAND = Cause(
    kind="command",
    title="the image has no such command",
    fix="the image must have python3 on its PATH",
    advice="Exit code 127.",
)
IMAGE = Cause(
    kind="image",
    title="the image could not be pulled",
    fix="check the image's name; grant roles/artifactregistry.reader on its repository to the Vertex AI"
    " service agent, service-PROJECT_NUMBER@gcp-sa-aiplatform-cc.iam.gserviceaccount.com",
    advice="On Vertex AI it is Google's service agent that pulls, not the job's account.",
)
BOOT = Cause(
    kind="boot",
    title="a VM could not start the job",
    fix="fix what the message names: the GPUs, the image or the bucket",
    advice="The script has not run, and the VMs have removed themselves.",
)
GUEST_SHUTDOWN = Cause(
    kind="guest_shutdown",
    title="a VM was shut down from inside",
    fix="remove what powers the machine off from the script or image",
    advice="The node agent had not ended.",
)
INTERNAL = Cause(
    kind="internal",
    title="Vertex AI had an error of its own",
    fix="check that the image exists; then try again, or in another region",
    advice="Google has tried three times. A wrong image name is reported like this, too.",
    fault=Blame.PLATFORM,
)
JOB_PERMISSION = Cause(
    kind="job_permission",
    title="Google's service agent or the job's account lacks a permission",
    fix="grant what the message names, to the account that it names",
    advice="Google takes a job first and looks at permissions then.",
)
STOCKOUT_REGION = Cause(
    kind="stockout_region",
    title="there were no machines in any region that is allowed",
    fix=_ELSEWHERE,
    advice="Vertex AI takes a job first and looks for machines then.",
    fault=Blame.CAPACITY,
)
QUOTA_REGION = Cause(
    kind="quota_region",
    title="a quota is too small",
    fix="ask for more at https://console.cloud.google.com/iam-admin/quotas, or allow another region",
    advice="See [quota_region](#quota_region): here it was reported after the job was created.",
    fault=Blame.QUOTA,
)
PREEMPTED = _not_yours(
    kind="preempted",
    title="a Spot VM was reclaimed",
    advice="Spot machines are reclaimed with 30 seconds of notice.",
)
PREEMPTED_IN_CREATION = _not_yours(
    kind="preempted_in_creation",
    title="a VM was reclaimed while it was made",
    advice="It happened a minute after the submit, before anything ran.",
)
HOST_ERROR = _not_yours(
    kind="host_error",
    title="the host of a VM failed",
    advice="Google's hardware; the VM's disk is gone with the VM.",
)
MAINTENANCE = _not_yours(
    kind="maintenance",
    title="host maintenance ended a VM",
    advice="Machines with GPUs cannot be moved while they run.",
)
REBOOTED = _not_yours(
    kind="rebooted",
    title="a VM was restarted",
    advice="A job does not run twice on one machine, so that nothing is counted twice.",
)
VANISHED = _not_yours(
    kind="vanished",
    title="a VM vanished without a trace",
    advice="Neither the VM nor a word of Google's about it was found.",
)
LOST = Cause(
    kind="lost",
    title="its processes ended without a word",
    fix="look at this machine's log: it was restarted, or somebody killed them",
    advice="Of jobs on this machine.",
    fault=Blame.PLATFORM,
)
CANCELLED = Cause(
    kind="cancelled",
    title="it was cancelled",
    fix="submit it again to resume from its checkpoint",
    advice="With `job.cancel()`, `gputrain cancel`, or in the platform's own console.",
    state=State.CANCELLED,
)
WITHDRAWN = Cause(
    kind="withdrawn",
    title="its submit was interrupted",
    fix="submit it again, also under the same key",
    advice="Somebody pressed Ctrl-C while machines were asked for, or while it waited for room.",
    state=State.CANCELLED,
)
STOPPED_BY_PERSON = Cause(
    kind="stopped_by_person",
    title="somebody stopped or deleted a VM",
    fix="ask who the message names; submit it again to resume from its checkpoint",
    advice="In the console, or with a command: a wish, so no restart follows.",
    state=State.CANCELLED,
)
TIME_LIMIT = Cause(
    kind="time_limit",
    title="max_run_duration was reached",
    fix="if it made progress, raise max_run_duration and submit it again to resume from its checkpoint",
    advice="All attempts together reached the limit. A job that was silent for long hung, and"
    " more time only costs more: the error says when a rank wrote its last line.",
    state=State.EXPIRED,
)
WAIT_LIMIT = Cause(
    kind="wait_limit",
    title="no machines came within max_wait_duration",
    fix=f"raise max_wait_duration; {_ELSEWHERE}",
    advice="Waiting was free. On this machine it waited for GPUs that other jobs held.",
    fault=Blame.CAPACITY,
    state=State.EXPIRED,
)
UNSTARTED = Cause(
    kind="unstarted",
    title="it was never started",
    fix="submit it again under the same key",
    advice="Its submitter was killed before it requested machines. Nothing was paid.",
    fault=Blame.PLATFORM,
    state=State.EXPIRED,
)
UNKNOWN = Cause(
    kind="unknown",
    title="for an unknown reason",
    fix="look at the log, and at the job in the console",
    advice="An empty log with exit code 1 means that the job's account lacks `roles/logging.logWriter`.",
)

CAUSES: Mapping[str, Cause] = {row.kind: row for row in tuple(globals().values()) if isinstance(row, Cause)}
"""Kind -> its row: all of those above."""


def of(kind: str) -> Cause:
    """The row of a kind; that of ``unknown`` for one that nobody foresaw.

    >>> of("preempted").title
    'a Spot VM was reclaimed'
    """
    return CAUSES.get(kind, UNKNOWN)
