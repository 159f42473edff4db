#!/usr/bin/env python3
# ruff: noqa: S310, S606  # the address is the machine's own, exec is the purpose
"""The startup script of every VM of a gputrain job: the same text for all of them.

It brings the rest of the guest from the VM's own metadata, the same text for all as well, and goes on
there. What differs from job to job is the JSON in ``gputrain-job``.
"""

from __future__ import annotations

import os
import sys
import urllib.request

ROOT = "/var/lib/gputrain"
PARTS = ("cloud", "node", "container", "run", "mirror")


def attribute(name: str) -> bytes:
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    url = f"http://{host}/computeMetadata/v1/instance/attributes/{name}"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return bytes(reply.read())


def main() -> None:
    package = os.path.join(ROOT, "guest")
    os.makedirs(package, mode=0o700, exist_ok=True)
    for part in PARTS:
        with open(os.path.join(package, part + ".py"), "wb") as file:
            file.write(attribute("gputrain-" + part))
    os.chdir(ROOT)  # where ``-m`` looks first
    os.execv(sys.executable, [sys.executable, "-m", "guest.run"])


if __name__ == "__main__":
    main()
