# ruff: noqa: S310, S606, PERF203, UP031  # addresses are ours, exec is the purpose, Python 3.7
"""Starts a job in its container: fetch the code, prove that it is the code, unpack it, go on there.

The text of this module is the container's command, ``python3 -c TEXT JSON``; Python 3.7 is enough for it.
Nothing is unpacked or run before the generation and the sha256 are what was submitted.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request

FINAL = (400, 401, 403, 404, 412)


def get(url: str, headers: dict[str, str], tries: int = 6) -> bytes:
    for pause_s in [2**n for n in range(tries - 1)] + [0]:
        try:
            request = urllib.request.Request(url, headers=headers)
            with urllib.request.urlopen(request, timeout=60) as reply:
                body: bytes = reply.read()
                return body
        except OSError as error:
            if not pause_s or getattr(error, "code", 503) in FINAL:
                sys.exit("gputrain: cannot fetch %s: %s" % (url, error))
            time.sleep(pause_s)
    return b""


def fetch(job: dict[str, str]) -> bytes:
    host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
    url = "http://%s/computeMetadata/v1/instance/service-accounts/default/token" % host
    token = json.loads(get(url, {"Metadata-Flavor": "Google"}))["access_token"]
    name = urllib.parse.quote(job["object"], safe="")
    url = "%s/storage/v1/b/%s/o/%s?alt=media&generation=%s"
    url = url % (job["storage"], job["bucket"], name, job["generation"])
    data = get(url, {"Authorization": "Bearer " + token})
    if hashlib.sha256(data).hexdigest() != job["sha256"]:
        sys.exit("gputrain: the code in the bucket is not what was submitted; nothing of it was run")
    return data


def unpack(data: bytes, root: str) -> None:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            parts = member.name.split("/")
            source = tar.extractfile(member) if member.isreg() else None
            if source is None or os.path.isabs(member.name) or {"", ".", ".."} & set(parts):
                sys.exit("gputrain: the code holds %r, which is no plain file below its root" % member.name)
            path = os.path.join(root, *parts)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(source.read())
            os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)


def main() -> None:
    root = tempfile.mkdtemp(prefix="gputrain-")
    unpack(fetch(json.loads(sys.argv[1])), root)
    os.chdir(root)
    os.execv(sys.executable, [sys.executable, ".gputrain/prelude.py", sys.argv[1]])


if __name__ == "__main__":
    main()
