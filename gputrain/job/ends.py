"""What each bad end of a job is called, and what to do about it: one row a kind, whatever the platform."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class End:
    """One kind of bad end."""

    title: str
    """Ends the sentence "bert failed on rank 3: ..."."""
    fix: str
    """What to do today."""
    advice: str
    """What else a reader should know, for the page of errors."""


_AGAIN = "submit it again: it goes on from its checkpoint; max_restarts= does so by itself"

ENDS: Mapping[str, End] = {
    "exception": End(
        title="the script raised",
        fix="mend what the traceback below names",
        advice="The traceback is that of the first rank that failed, on whichever node it was. Its neighbours"
        " break of it; what they say is left out.",
    ),
    "signal": End(
        title="a signal ended the rank",
        fix="look at the last lines; SIGSEGV and SIGABRT come from native code, often of two CUDA versions",
        advice="`error.exit_code` is 128 and the number of the signal.",
    ),
    "exit": End(
        title="the script ended with an exit code",
        fix="look at the last lines; a script that calls sys.exit tells no more",
        advice="No exception was seen, so there is no traceback.",
    ),
    "left_early": End(
        title="a rank left before the others were done",
        fix="let all ranks do the same number of steps: drop_last=True, or a sampler that pads",
        advice="It ended with 0 while its peers still waited for it in a collective.",
    ),
    "out_of_memory": End(
        title="the memory of the machine ran out",
        fix="take a machine with more memory, or a smaller batch or fewer loader workers",
        advice="The machine's memory, not the GPU's: CUDA's own is an exception with a traceback.",
    ),
    "node_missing": End(
        title="a node never joined",
        fix="look whether its machine started, and whether the nodes reach each other over TCP",
        advice="`error.node_rank` is the one that is missing. On Compute Engine a network of one's own needs"
        " a firewall rule for TCP between the VMs.",
    ),
    "node_lost": End(
        title="a node went away while the job ran",
        fix=_AGAIN,
        advice="Its machine or its agent ended without a word.",
    ),
    "stopped": End(
        title="it was asked to stop",
        fix=_AGAIN,
        advice="Somebody, or the platform, sent the ranks a signal. Those that heed it have saved.",
    ),
    "environment": End(
        title="the ranks could not be started",
        fix="look at the message: the image, the Python in it or a setting is not as the job needs it",
        advice="Nothing of the script has run.",
    ),
    "command": End(
        title="the image has no such command",
        fix="the image must have python3 on its PATH",
        advice="Exit code 127.",
    ),
    "image": End(
        title="the image could not be pulled",
        fix="grant roles/artifactregistry.reader on the image's repository to the Vertex AI service agent, "
        "service-PROJECT_NUMBER@gcp-sa-aiplatform-cc.iam.gserviceaccount.com",
        advice="On Vertex AI it is Google's service agent that pulls, not the job's account.",
    ),
    "internal": End(
        title="Vertex AI had an error of its own",
        fix="check that the image exists; then try again, or in another region",
        advice="Google has tried three times by itself. A wrong name of an image is told like this, too.",
    ),
    "stockout_region": End(
        title="there were no machines in any region that is allowed",
        fix="allow more regions, GPUs or provisioning models, or try again later",
        advice="Vertex AI takes a job first and looks for machines then.",
    ),
    "quota_region": End(
        title="a quota is too small",
        fix="ask for more at https://console.cloud.google.com/iam-admin/quotas, or allow another region",
        advice="See [quota_region](#quota_region): here it was told after the job was made.",
    ),
    "boot": End(
        title="a VM could not start the job",
        fix="mend what the message names: the GPUs, the image or the bucket",
        advice="The script has not run, and the VMs have removed themselves.",
    ),
    "guest_shutdown": End(
        title="a VM was shut down from inside",
        fix="take whatever powers the machine off out of the script or image",
        advice="The node agent had not ended.",
    ),
    "preempted": End(
        title="a Spot VM was reclaimed",
        fix=_AGAIN,
        advice="Nobody's fault: Spot machines are taken back with 30 seconds of notice.",
    ),
    "preempted_in_creation": End(
        title="a VM was reclaimed while it was made",
        fix=_AGAIN,
        advice="It happened a minute after the submit, before anything ran.",
    ),
    "host_error": End(
        title="the host of a VM failed",
        fix=_AGAIN,
        advice="Google's hardware; the VM's disk is gone with the VM.",
    ),
    "maintenance": End(
        title="host maintenance ended a VM",
        fix=_AGAIN,
        advice="Machines with GPUs cannot be moved while they run.",
    ),
    "rebooted": End(
        title="a VM was restarted",
        fix=_AGAIN,
        advice="A job does not run twice on one machine, so that nothing is counted twice.",
    ),
    "vanished": End(
        title="a VM vanished without a trace",
        fix=_AGAIN,
        advice="Neither the VM nor a word of Google's about it was found.",
    ),
    "lost": End(
        title="its processes ended without a word",
        fix="look at this machine's log: it was restarted, or somebody killed them",
        advice="Of jobs on this machine.",
    ),
    "unknown": End(
        title="nobody told why",
        fix="look at the log, and at the job in the console",
        advice="An empty log with exit code 1 means that the job's account lacks `roles/logging.logWriter`.",
    ),
}


def end_of(kind: str) -> End:
    """The row of a kind; that of ``unknown`` for one that nobody foresaw.

    >>> end_of("preempted").title
    'a Spot VM was reclaimed'
    """
    return ENDS.get(kind, ENDS["unknown"])
