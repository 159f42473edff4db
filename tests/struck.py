"""A Ctrl-C, and whether a call comes to its end."""

import os
import signal
import threading

LONGEST_S = 60  # for an answer of this machine, however busy


def press(document=None):
    """Press Ctrl-C; gives what it was given."""
    os.kill(os.getpid(), signal.SIGINT)
    return document


def ends(act):
    """Whether a call comes back, in a thread that nobody waits for if not."""
    one = threading.Thread(target=act, daemon=True)
    one.start()
    one.join(LONGEST_S)
    return not one.is_alive()
