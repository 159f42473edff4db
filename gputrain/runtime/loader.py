# ruff: noqa: S606  # exec is the purpose
"""Starts a job in its container: fetch the code, prove that it is the code, unpack it, continue there.

The text of `cloud` and of this module is the container's command, ``python3 -c TEXT JSON``; Python 3.7 is
enough for it. Nothing is unpacked or run before the sha256 is what was submitted.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tarfile
import tempfile
from typing import Any

from .cloud import Bucket, CallFailed, order

# Not the folder itself, which -c looks into first: a json.py of the user's is the script's alone.
SETUP = (
    "import sys; sys.path = ['.gputrain/agent.pyz'] + [path for path in sys.path if path];"
    " from gputrain.runtime.setup import main; main()"
)


def fetch(job: Any) -> bytes:
    try:
        data = Bucket(job["storage"], job["bucket"]).get(job["object"])
    except CallFailed as error:
        sys.exit("gputrain: cannot fetch the code: %s" % error)
    if data is None:
        sys.exit("gputrain: cannot fetch the code: %s is not in the bucket" % job["object"])
    if hashlib.sha256(data).hexdigest() != job["sha256"]:
        sys.exit("gputrain: the code in the bucket is not what was submitted; nothing of it was run")
    return bytes(data)


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
    job = order(sys.argv[1])
    os.environ.update(job.get("env") or {})
    root = tempfile.mkdtemp(prefix="gputrain-")
    unpack(fetch(job), root)
    os.chdir(root)
    os.execv(sys.executable, [sys.executable, "-c", SETUP, sys.argv[1]])


if __name__ == "__main__":
    main()
