"""What a guest does about its job's record: the table of docs/design/record.md, one question at a time."""

import json
from urllib.parse import quote

from gputrain.google import LABEL_ATTEMPT
from gputrain.runtime.contract import BOOT
from gputrain.runtime.fence import (
    AGAIN_S,
    CANCELLED,
    DENIED_FOR_S,
    MINE,
    MISSING_EVERY_S,
    MISSING_TRIES,
    SILENT_FOR_S,
    SUPERSEDED,
)

EVERY_S = 5.0


def attempt_of(labels):
    """The attempt that a machine was made for."""
    return labels.get(LABEL_ATTEMPT, "")


class GuestFence:
    """The record of one job, as one attempt's machine reads it."""

    def __init__(self, guests, bucket, record, attempt):
        self.guests, self.attempt = guests, attempt
        self.target = f"/storage/v1/b/{bucket}/o/{quote(record, safe='')}?fields=metadata"
        self.missing, self.began_at = 0, guests.clock.now()

    def at_boot(self, after, enter):
        """Call ``enter`` with what the record says, or BOOT where that cannot be read in time."""
        status, says = self.ask()
        waited_s, again_s = self.guests.clock.now() - self.began_at, AGAIN_S
        if status == 404:
            self.missing, again_s = self.missing + 1, MISSING_EVERY_S
            says = SUPERSEDED if self.missing == MISSING_TRIES else ""
        elif not says and waited_s >= (DENIED_FOR_S if status == 403 else SILENT_FOR_S):
            says = BOOT
        if says:
            enter(says)
        else:
            after(again_s, lambda: self.at_boot(after, enter))

    def while_running(self, after, leave):
        """Ask every few seconds, and call ``leave`` with what the record says once that is to leave."""

        def look():
            _, says = self.ask()
            if says not in ("", MINE):
                leave(says)
            if says != SUPERSEDED:
                after(EVERY_S, look)

        after(EVERY_S, look)

    def ask(self):
        """The status, and what the record says; nothing where it cannot be read."""
        status, body = self.guests.ask("GET", self.target)
        if status != 200:
            return status, ""
        found = json.loads(body).get("metadata", {})
        if found.get("attempt") != self.attempt:
            return status, SUPERSEDED
        return status, CANCELLED if found.get("wanted") == "cancel" else MINE
