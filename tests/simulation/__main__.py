"""Runs schedules: ``python -m tests.simulation --seeds 0:500``; ``--replay 17 --shrink`` shows one, cut down.

A process of its own, because gputrain is loaded with the simulation's time and threads.
"""

import argparse
import collections
import gc
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.simulation import substitutes
from tests.simulation.planted import plant

substitutes.install()


def main():
    asked = _arguments()
    if asked.plant:
        plant(asked.plant)
    logging.getLogger("gputrain").setLevel(logging.CRITICAL)
    from tests.simulation.laws import LAWS
    from tests.simulation.schedule import drawn
    from tests.simulation.shrink import shrunk
    from tests.simulation.world import World

    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text("pass\n")

        def run(schedule):
            return World(schedule, str(script)).live()

        if asked.replay is not None:
            _replay(
                drawn(asked.replay, asked.backends), World, str(script), shrunk if asked.shrink else None, run
            )
            return 0
        first, _, last = asked.seeds.partition(":")
        broken, slowest, began = collections.defaultdict(list), (0.0, 0), time.perf_counter()
        gc.disable()
        for seed in range(int(first), int(last)):
            started = time.perf_counter()
            for one in run(drawn(seed, asked.backends)):
                broken[one.law].append((seed, one.what))
            slowest = max(slowest, (time.perf_counter() - started, seed))
            if seed % 25 == 0:
                gc.collect()
                gc.freeze()
            if asked.first and broken:
                break
        took_s = time.perf_counter() - began
    _table(LAWS, broken, seed + 1 - int(first), slowest, took_s)
    return 1 if broken else 0


def _table(laws, broken, count, slowest, took_s):
    print("law | schedules | violations | seeds")
    for law in laws:
        seeds = list(dict.fromkeys(seed for seed, _ in broken[law]))
        print(f"{law} | {count} | {len(seeds)} | {' '.join(map(str, seeds[:12]))}")
        for seed, what in broken[law][:3]:
            print(f"    seed {seed}: {what[-700:]}")
    print(f"slowest seed: {slowest[1]}, {slowest[0]:.2f} s; {count / took_s:.1f} schedules a second")
    for law in [law for law in broken if law not in laws]:
        print(law, broken[law])


def _replay(schedule, world, script, shrunk, run):
    if shrunk is not None:
        schedule = shrunk(schedule, run)
    lived = world(schedule, script)
    found = lived.live()
    print(schedule)
    began = lived.wire.log[0][0] if lived.wire.log else 0.0
    for at, client, number, verb, path, status in lived.wire.log:
        print(f"{at - began:9.2f} {client} {number:3} {verb:6} {path} {status}")
    print(lived.cloud.ledger)
    for one in (*lived.truth.acts, *lived.truth.told, *lived.truth.trainings):
        print(one)
    for one in found:
        print(f"BROKEN {one.law}: {one.what}")


def _arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--backends", default="compute,vertex,both", type=lambda text: tuple(text.split(",")))
    parser.add_argument("--replay", type=int)
    parser.add_argument("--shrink", action="store_true")
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
