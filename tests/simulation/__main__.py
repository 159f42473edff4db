"""Runs schedules: ``python -m tests.simulation --seeds 0:500``; ``--replay 17`` shows one.

A process of its own, because gputrain is loaded with the simulation's time and threads.
"""

import argparse
import gc
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

import attrs

from tests.simulation import substitutes
from tests.simulation.planted import plant

substitutes.install()


def main():
    asked = _arguments()
    if asked.plant:
        plant(asked.plant)
    logging.getLogger("gputrain").setLevel(logging.CRITICAL)
    from tests.simulation.draws import drawn
    from tests.simulation.world import World

    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text("pass\n")

        def lived(schedule):
            world = World(schedule, str(script))
            world.live()
            return world

        if asked.named:
            return _named(lived)
        if asked.replay is None:
            return _many(asked, lambda seed: lived(drawn(seed, asked.backends)))
        _show(lived(drawn(asked.replay, asked.backends)))
        return 0


def _named(lived):
    """The schedules that have names, one by one."""
    from tests.simulation.named import NAMED

    broken = 0
    for name, schedule in NAMED.items():
        found = lived(schedule).truth.violations
        broken += bool(found)
        print(f"{name} | {'; '.join(f'{one.law}: {one.what[-400:]}' for one in found) or 'every law holds'}")
    return 1 if broken else 0


def _many(asked, lived):
    """Schedule after schedule, and which laws they broke."""
    first, last = map(int, asked.seeds.split(":"))
    broken, longest, began_s, count = {}, (0.0, "no wait", -1), time.process_time(), 0
    gc.disable()
    for seed in range(first, last):
        truth, count = lived(seed).truth, count + 1
        longest = max([longest, *((share, what, seed) for share, what in truth.waits)])
        for one in truth.violations:
            broken.setdefault(one.law, []).append(f"seed {seed}: {one.what[-700:]}")
        if seed % 100 == 0:
            gc.collect()
            gc.freeze()
        if asked.first and broken:
            break
    for law, found in broken.items():
        print(f"{law}: {len(found)} times", *found[:3], sep="\n    ")
    print(f"{count} schedules, {count / (time.process_time() - began_s):.1f} a second of the processor;")
    print(f"{len(broken)} laws broken; the longest wait for its bound: {longest[1]} (seed {longest[2]})")
    return 1 if broken else 0


def _show(lived):
    """Who did what, every request, what was committed, and what broke."""
    for name, value in attrs.asdict(lived.schedule, recurse=False).items():
        print(f"{name} = {value}")
    began = lived.wire.log[0][0] if lived.wire.log else 0.0
    for at, client, number, verb, path, status in lived.wire.log:
        print(f"{at - began:9.2f} {client} {number:3} {verb:6} {path} {status}")
    print(lived.cloud.ledger)
    for one in (*lived.truth.acts, *lived.truth.told, *lived.truth.trainings):
        print(one)
    for one in lived.truth.violations:
        print(f"BROKEN {one.law}: {one.what}")


def _arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--backends", default="compute,vertex,both", type=lambda text: tuple(text.split(",")))
    parser.add_argument("--replay", type=int)
    parser.add_argument("--named", action="store_true", help="the schedules that broke a promise once")
    parser.add_argument(
        "--plant", default="", help="load gputrain with a fault of tests/simulation/planted.py"
    )
    parser.add_argument("--first", action="store_true", help="end with the first schedule that breaks a law")
    return parser.parse_args()


def alike():
    """Sets are walked in one order in every run, and nothing of this machine's environment is read."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        told = {**kept, "PYTHONHASHSEED": "0", "GPUTRAIN_CATALOG": os.devnull}
        os.execve(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]], told)


if __name__ == "__main__":
    alike()
    sys.exit(main())
