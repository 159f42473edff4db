"""The process that submits an experiment is killed half way; run again, it makes what is missing, once."""

import multiprocessing
import os
import signal
import time

import gputrain


def train(lr, seed):
    """What each point runs."""
    import json

    loss = (lr - 0.2) ** 2 + seed / 1000
    print("GPUTRAIN_METRIC " + json.dumps({"step": 1, "loss": loss}))


def submit():
    """The script that a person runs, and runs again."""
    points = gputrain.grid(lr=[0.1, 0.2, 0.3], seed=range(3))
    return gputrain.Trainer().map(train, points, name="killed-scan", max_parallel=2).wait(timeout=200)


def main():
    driver = multiprocessing.Process(target=submit)
    driver.start()
    while not gputrain.Trainer().jobs(name="killed-scan"):
        time.sleep(0.1)
    os.kill(driver.pid, signal.SIGKILL)
    driver.join()
    print(f"killed with {len(gputrain.Trainer().jobs(name='killed-scan'))} of 9 jobs made")

    scan = submit()
    print(scan)
    jobs = gputrain.Trainer().jobs(name="killed-scan")
    assert len(jobs) == len(scan.points) == 9
    print("best:", scan.best("loss").point)


if __name__ == "__main__":
    main()
