"""A node of `Processes`: asks its record at boot and again and again, trains, and writes how it ended.

``guest.py RECORD FOLDER ATTEMPT RANK SECONDS``; standard library only, as what runs in a machine is.
"""

import json
import os
import sys
import time

EVERY_S = 0.02


def metadata(record):
    try:
        with open(record, "rb") as file:
            return json.loads(file.readline())["metadata"]
    except FileNotFoundError:
        return {}


def note(folder, line):
    with open(os.path.join(folder, "log"), "a") as file:
        file.write(f"{time.time():.4f} {line}\n")


def main(record, folder, attempt, rank, seconds):
    mine = os.path.join(folder, attempt)
    why = "superseded"
    there = metadata(record)
    if there.get("attempt") == attempt and there["wanted"] == "run":
        note(folder, f"starts {attempt} {rank}")
        until = time.monotonic() + float(seconds)
        while True:
            there = metadata(record)
            why = "superseded" if there.get("attempt") != attempt else "cancelled"
            if there.get("attempt") != attempt or there["wanted"] != "run":
                break
            why = "peer"
            if any(one.startswith("ended-") for one in os.listdir(mine)):
                break
            why = "done"
            if time.monotonic() > until:
                break
            time.sleep(EVERY_S)
        note(folder, f"ends {attempt} {rank}")
    with open(os.path.join(mine, f"ended-{rank}"), "w") as file:
        file.write(why)


if __name__ == "__main__":
    main(*sys.argv[1:])
