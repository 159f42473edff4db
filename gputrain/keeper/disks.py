"""The local SSDs of a VM: Google attaches them empty, and whoever pays for them has to format and mount them.

They are striped into one file system, in which everything lies that a job writes or loads. Where that fails
the job runs on the boot disk, and says so.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil

from .install import install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional

    from .install import Call

NAMES = "/dev/disk/by-id/google-local-nvme-ssd-*", "/dev/disk/by-id/google-local-ssd-*"
"""How Google's images name them, by interface; the boot disk of some machines is /dev/nvme0n1 itself.
Source: "Add local SSD disks to your VM" and cluster-toolkit's setup-raid.yml, read 2026-11-22."""

_DISK = re.compile(r"-[0-9]+\Z")
"""A disk by its number; one that was partitioned has partitions beside it, ``-part1``."""

ARRAY = "/dev/md/gputrain"
_PATIENT = ("timeout", "-s", "KILL", "300")


def mount(call: Call, folder: str, say: Callable[..., Any]) -> bool:
    """Mount the local SSDs at a folder; whether there were any that could be.

    What lies on one that nobody uses is of no job's: a VM is made for one job, and boots for it once.
    Raises as ``call``; ``say`` takes news, and how severe they are.
    """
    named = [path for name in NAMES for path in glob.glob(name)]
    found = sorted(filter(_DISK.search, named), key=lambda path: int(path.rpartition("-")[2]))
    free = [path for path in found if _is_free(path)]
    if len(free) < len(found):
        say(f"{len(found) - len(free)} local SSDs are in use by this boot image, and stay as they are")
    if not free:
        return False
    device = _striped(call, free, say) if len(free) > 1 else free[0]
    fault = _said(call, "mkfs.ext4", "-q", "-F", "-m", "0", device)
    os.makedirs(folder, exist_ok=True)
    fault = fault or _said(call, "mount", "-t", "ext4", "-o", "discard,noatime", device, folder)
    if fault:
        say(f"the local SSDs cannot be mounted, and all lies on the boot disk: {fault}", "WARNING")
        return False
    size = shutil.disk_usage(folder).total / 2**30
    say(f"{size:.1f} GiB of local SSD at {folder}: code, checkpoints, outputs, images and caches")
    return True


def _striped(call: Call, disks: List[str], say: Callable[..., Any]) -> str:
    """One device of all of them, or the first where this boot image cannot stripe."""
    if shutil.which("mdadm") is None:
        install(call, "mdadm")
    words = ["mdadm", "--create", ARRAY, "--name=gputrain", "--homehost=any", "--run", "--level=0"]
    fault = _said(call, *words, f"--raid-devices={len(disks)}", *disks)
    if not fault:
        return ARRAY
    say(f"one of {len(disks)} local SSDs is used, as they cannot be striped: {fault}", "WARNING")
    return disks[0]


def _said(call: Call, *words: str) -> Optional[str]:
    """What a program said that failed; None where it did what it should."""
    if shutil.which(words[0]) is None:
        return f"there is no {words[0]} on this boot image"
    code, said = call([*_PATIENT, *words])
    return (said[-500:] or f"{words[0]} ended with {code}") if code else None


def _is_free(path: str) -> bool:
    """Whether nobody has mounted it or made it a part of an array: the kernel lets one user have it alone."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        return error.errno != errno.EBUSY
    return True
