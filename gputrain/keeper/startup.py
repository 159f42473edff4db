# ruff: noqa: S606  # exec is the purpose
"""The startup script of every VM of a gputrain job, behind the text of `cloud`: the same for all of them.

It brings the keeper from the VM's own metadata, the same text for all as well, hands it over to systemd as a
unit of its own, and ends. What runs inside Google's script runner hears of no power button, and a line of
64 KiB breaks its output. What differs from job to job is the JSON in ``gputrain-job``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

from .cloud import metadata

ROOT = "/var/lib/gputrain"
KEY = "gputrain-keeper"
UNIT = "gputrain"
PROPERTIES = (
    "Description=gputrain",
    "FailureAction=poweroff",  # a keeper that died ends no VM; where ranks live on, after TimeoutStopSec
    "KillMode=mixed",  # SIGTERM to the keeper alone, which lets the ranks save
    "TimeoutStopSec=110",  # Google pulls the plug 120 s after the power button, of a Spot VM after 30
    "After=network-online.target docker.service",  # so it ends before the network and containers do
    "LimitNOFILE=1048576",
    "LimitMEMLOCK=infinity",  # RDMA pins memory
    "TasksMax=infinity",
    "OOMPolicy=continue",  # a rank that ran out of memory is the agent's news, not the end of the unit
    "StandardOutput=journal+console",
    "StandardError=journal+console",
)


def bring() -> None:
    for path, text in json.loads(metadata("attributes/" + KEY)).items():
        full = os.path.join(ROOT, path)
        os.makedirs(os.path.dirname(full), mode=0o700, exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def main() -> None:
    if runs():  # a person ran this script once more
        say("this job runs here already")
        return
    try:
        bring()
    except Exception as error:  # noqa: BLE001  # whichever it is: without the keeper nobody ends this VM
        say(f"the keeper cannot be brought, so this VM is powered off: {error!r}")
        power_off()
    keeper = [sys.executable, "-m", "gputrain.keeper.vm"]
    if not hand_over(keeper):
        os.chdir(ROOT)  # where ``-m`` looks first
        os.execv(sys.executable, keeper)


def hand_over(keeper: list[str]) -> bool:
    """Whether systemd runs the keeper from now on, as a unit of its own."""
    words = ["systemd-run", "--unit=" + UNIT, "--collect", "--setenv=HOME=/root"]
    words += ["--working-directory=" + ROOT]
    words += [
        "--setenv=%s=%s" % (name, os.environ[name]) for name in ("GCE_METADATA_HOST",) if name in os.environ
    ]
    for each in PROPERTIES:
        words += ["-p", each]
    try:
        done = subprocess.run(words + keeper, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        refusal = done.stdout.decode("utf-8", "replace").strip() if done.returncode else ""
    except OSError as error:
        refusal = str(error)
    if refusal and not runs():
        say("no unit of its own, so the ranks may not hear of a power button: " + refusal)
        return False
    return True


def runs() -> bool:
    try:
        return subprocess.call(["systemctl", "is-active", "--quiet", UNIT]) == 0
    except OSError:
        return False


def power_off(goes_down: bool = False) -> None:
    """Ask until it happens: logind loses a word while the guest agent restarts it, right after a boot.

    goes_down: ask once, as the system goes down already and waits for this process, its bill running.
    """
    subprocess.call(["poweroff"])
    while not goes_down:
        time.sleep(10)
        subprocess.call(["poweroff"])


def say(what: str) -> None:
    sys.stderr.write("gputrain: " + what + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
