"""The process that keeps one folder of a VM and a ``gs://`` place alike, from before the job until after it.

Says that the folder is filled once it holds all that the bucket does; when standard input ends it sends the
rest, tries again for as long as an outage may last, and says what is not in the bucket.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time

from .cloud import LAST_S, is_no_answer
from .mirror import Mirror
from .store import Store
from .tree import Tree
from .whole import Wholeness

EVERY_S = 0.5
AFTER_FAULT_S = 5.0
FILLED = "gputrain-filled"
"""The line, for the keeper, after which the job may begin."""

UNSAVED = "gputrain-unsaved:"
"""Begins the last line, for the keeper: what the bucket lacks, each with why, as JSON."""


def keep(mirror: Mirror) -> None:
    """Round by round, until standard input has ended and all is sent that can be."""
    is_last, is_out, give_up = False, False, float("inf")
    while not is_last or (is_out and time.monotonic() < give_up):
        pause_s = AFTER_FAULT_S if is_out else EVERY_S
        if is_last:
            time.sleep(pause_s)
        elif select.select([sys.stdin], [], [], pause_s)[0]:
            is_last, give_up = True, time.monotonic() + LAST_S
        try:
            is_out = mirror.round(is_last)
        except Exception as error:  # noqa: BLE001  # whatever it is, the next round may save the checkpoint
            is_out = not is_last or is_no_answer(error)
            mirror.unsent.broke(error)


def main() -> None:
    order = json.loads(sys.argv[1])
    store = Store(order["storage"], order["bucket"], order["prefix"], order["node"])
    whole = Wholeness(order["killed"], is_strict=order["is_strict"])
    mirror = Mirror(store, order["folder"], order["node"], whole)
    try:
        os.makedirs(order["folder"], exist_ok=True)
        mirror.fill()
    except (OSError, ValueError) as error:
        sys.stdout.write(f"{error}\n")
        sys.exit(1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the ranks may save after it
    sys.stdout.write(FILLED + "\n")
    sys.stdout.flush()
    keep(mirror)
    sys.stdout.write(UNSAVED + json.dumps(mirror.unsent.told(Tree(order["folder"]))) + "\n")


if __name__ == "__main__":
    main()
