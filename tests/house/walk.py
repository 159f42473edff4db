"""What one warm submit goes through: frames of gputrain on all threads, but comprehensions and lambdas."""

import sys
import threading

import gputrain_emulator
from gputrain import ComputeEngine, Local, Trainer, VertexAI
from gputrain_emulator.storage import Storage
from tests.house.source import PACKAGE
from tests.support.clouds import settings

CLOUDS = {"vertex": VertexAI, "compute": ComputeEngine}


def walked(where, script):
    """{"files", "functions", "depth"} of the third submit of one trainer; the first two warm it up.

    depth: the most frames of gputrain on one thread's stack.
    """
    if where == "local":
        return _third_submit(Trainer(Local(gpus=0)), {"script": script})
    with gputrain_emulator.start() as cloud:
        cloud.world.part(Storage).add_bucket("my-bucket", location="us-central1")
        backend = CLOUDS[where](**settings(cloud, regions=["us-central1"]))
        return _third_submit(Trainer(backend), {"script": script, "gpu": "L4:1"})


def _third_submit(trainer, fields):
    jobs = [trainer.submit(**fields) for _ in range(2)]
    with Walk() as walk:
        jobs.append(trainer.submit(**fields))
    for job in jobs:
        job.cancel()
    return walk.figures()


class Walk:
    """Counts while it is entered; threads that were started before are not seen."""

    def __init__(self):
        self._codes, self._deepest = set(), 0
        self._stacks = threading.local()

    def __enter__(self):
        threading.setprofile(self._step)
        sys.setprofile(self._step)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)
        threading.setprofile(None)

    def figures(self):
        files = {code.co_filename for code in self._codes}
        return {"files": len(files), "functions": len(self._codes), "depth": self._deepest}

    def _step(self, frame, event, _argument):
        if event not in ("call", "return"):
            return
        stack = self._stacks.__dict__.setdefault("frames", [])
        if event == "return":
            if stack:
                stack.pop()
            return
        code = frame.f_code
        counts = code.co_filename.startswith(str(PACKAGE)) and not code.co_name.startswith("<")
        stack.append(counts)
        if counts:
            self._codes.add(code)
            self._deepest = max(self._deepest, sum(stack))
