"""A pid that was a rank's and is another process's now."""

import os
import subprocess
import sys

from gputrain.entrypoint import options, processes, ranks
from gputrain.entrypoint.launcher import Workers
from gputrain.entrypoint.logs import LogForwarder


def test_an_orphan_with_the_number_of_a_rank_that_has_ended_changes_nothing_of_it():
    told = []
    with open(os.devnull, "wb") as out:
        logs = LogForwarder("text", "", 0, out=out.fileno())
        workers = Workers(options.parse(["--", "train.py"], {}), 0, logs, lambda *end: told.append(end))
        rank = ranks.Rank(0, 0, "")
        orphan = subprocess.Popen([sys.executable, "-c", "raise SystemExit(9)"])
        rank.pid = orphan.pid
        rank.end(processes.Ending(0))
        workers.ranks.append(rank)
        os.waitid(os.P_PID, orphan.pid, os.WEXITED | os.WNOWAIT)
        workers.reap()
        logs.finish()
    assert (rank.exit_code, rank.signal) == (0, None)


def test_a_process_with_the_number_of_a_rank_that_has_ended_is_not_killed():
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    rank = ranks.Rank(0, 0, "")
    rank.pid = other.pid
    rank.end(processes.Ending(0))
    rank.kill()
    try:
        assert other.poll() is None
        assert os.getsid(other.pid) == other.pid
    finally:
        other.kill()
        assert other.wait() == -9
