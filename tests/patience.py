"""How long tests wait for what has to come: nobody's promise, and no measure of a machine's speed."""

import time

PATIENCE_S = 240.0
"""Seconds; a test as a whole is ended a minute later."""


def until(condition, *, seconds=PATIENCE_S, shown=lambda: "it does not come true", every_s=0.02):
    """What a condition gives once it is true.

    shown: what to show where it does not come true.
    """
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, shown()
        time.sleep(every_s)
    return found
