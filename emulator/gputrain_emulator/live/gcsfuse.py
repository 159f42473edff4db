"""The gcsfuse of an emulated machine, a program of its own: shows a bucket in a folder until it has to end.

The bucket is a folder that the machine sees already (`gcs_folder`), so it is mounted a second time; where
nothing may mount, it has been mounted there at the boot. Flags that it does not know are refused.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

BUCKETS = "/mnt/emulated-buckets"
WAITS = ".waits-"  # as of `gcs_folder`
FLAGS = (
    "--foreground", "--implicit-dirs", "--file-mode", "--dir-mode", "--metadata-cache-ttl-secs", "-o",
    "--metadata-cache-negative-ttl-secs", "--rename-dir-limit", "--log-severity", "--log-format",
    "--temp-dir",
)  # fmt: skip
PATIENCE_S = 30.0


def main(arguments: Sequence[str]) -> None:
    """Do what gcsfuse does; ends the process."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    words = list(arguments)
    while words and words[0].startswith("-"):
        name, _, value = words.pop(0).partition("=")
        if name not in FLAGS:
            sys.exit(f"Error: unknown flag: {name}")
        if name == "-o" and not value:
            words.pop(0)
        if name == "--temp-dir" and not os.path.isdir(value):
            sys.exit(f"Error: there is no folder {value}")
    bucket, target = words
    source = os.path.join(BUCKETS, bucket)
    if not os.path.isdir(source):
        sys.exit(f"Error: mountWithStorageHandle: bucket {bucket}: 404 does not exist")
    is_ours = not is_mounted(target)
    if is_ours:
        subprocess.run(["mount", "--bind", source, target], check=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    number, path = tempfile.mkstemp(prefix=WAITS, dir=BUCKETS)
    os.close(number)
    late = time.monotonic() + PATIENCE_S
    while os.path.exists(path) and time.monotonic() < late:
        time.sleep(0.02)
    if is_ours:
        subprocess.run(["umount", target], check=True)


def is_mounted(path: str) -> bool:
    """Whether something is mounted at a path."""
    with open("/proc/self/mountinfo") as file:
        return any(line.split()[4] == path for line in file)


if __name__ == "__main__":
    main(sys.argv[1:])
