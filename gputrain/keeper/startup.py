#!/usr/bin/env python3
# ruff: noqa: S606, PERF203  # exec is the purpose, a loop of tries
"""The startup script of every VM of a gputrain job: the same text for all of them.

It brings the keeper from the VM's own metadata, the same text for all as well, and goes on there. What
differs from job to job is the JSON in ``gputrain-job``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request

ROOT = "/var/lib/gputrain"
KEY = "gputrain-keeper"
PAUSES_S = (1, 2, 4, 8, 0)


def attribute(name: str) -> str:
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    url = f"http://{host}/computeMetadata/v1/instance/attributes/{name}"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for pause_s in PAUSES_S:
        try:
            with direct.open(request, timeout=60) as reply:
                return str(reply.read().decode())
        except OSError:
            if not pause_s:
                raise
            time.sleep(pause_s)
    return ""


def bring() -> None:
    for path, text in json.loads(attribute(KEY)).items():
        full = os.path.join(ROOT, path)
        os.makedirs(os.path.dirname(full), mode=0o700, exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


def main() -> None:
    try:
        bring()
    except Exception as error:  # noqa: BLE001  # whichever it is: without the keeper nobody ends this VM
        sys.stderr.write(f"gputrain: the keeper cannot be brought, so this VM is powered off: {error!r}\n")
        sys.exit(subprocess.call(["poweroff"]))
    os.chdir(ROOT)  # where ``-m`` looks first
    os.execv(sys.executable, [sys.executable, "-m", "gputrain.keeper.vm"])


if __name__ == "__main__":
    main()
