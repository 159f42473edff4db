"""Plant faults by hand, and see which tests catch them.

python -m tests.planted                      each fault, one after the other
python -m tests.planted "max_cost"           those whose names hold that text
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.planted.copied import Copy
from tests.planted.faults import FAULTS


def main():
    words = argparse.ArgumentParser(
        prog="python -m tests.planted", description="Plant faults, and run tests."
    )
    words.add_argument("name", nargs="?", default="", help="a part of the faults' names")
    words.add_argument("--show", action="store_true", help="what pytest wrote")
    asked = words.parse_args()
    chosen = [one for one in FAULTS if asked.name in one.name]
    missed = 0
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        copy = Copy(Path(folder))
        for plant in chosen:
            began = time.monotonic()
            with copy.planted(plant):
                outcome = copy.test(*plant.caught_by)
            left = outcome.missed(plant)
            missed += bool(left)
            print(
                f"{'MISSED' if left else 'caught'}  {time.monotonic() - began:5.1f} s  {plant.name}",
                flush=True,
            )
            for one in left:
                print(f"                  by {one}")
            if asked.show:
                print(outcome.output)
    print(f"{len(chosen) - missed} of {len(chosen)} caught")
    return bool(missed) or not chosen


if __name__ == "__main__":
    sys.exit(main())
