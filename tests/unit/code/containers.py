"""Containers that start in folders of their own, in an emulated cloud."""

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
import zipfile

import pytest

from gputrain.backends.vertex.request import loader
from gputrain.code.bundle import pack
from gputrain.google.storage import BucketPrefix, upload
from gputrain.runtime import zipapp
from tests.support.clouds import client
from tests.support.vm import cloud_of_a_vm

BUCKET = BucketPrefix(name="my-bucket")
AGENT = b"""
import json, os, sys
print("agent", json.dumps({"argv": sys.argv[1:], "cwd": sorted(os.listdir(".")), "env": dict(os.environ)}))
"""


@contextlib.contextmanager
def containers():
    """A `World` that ends with the block."""
    with pytest.MonkeyPatch.context() as patch, cloud_of_a_vm(patch) as cloud:
        yield World(cloud)


class World:
    """A bucket, an identity, and containers that start in a folder of their own."""

    def __init__(self, cloud):
        self.cloud, self.access = cloud, client(cloud)

    def stage(self, folder, agent=AGENT):
        buffer = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(zipapp.build())) as whole, zipfile.ZipFile(buffer, "w") as made:
            for name in whole.namelist():
                made.writestr(name, agent if name == "__main__.py" else whole.read(name))
        archive = pack(str(folder), made={".gputrain/agent.pyz": buffer.getvalue()})
        return self.put(archive.data)

    def put(self, data):
        sha = hashlib.sha256(data).hexdigest()
        name = f"code/{sha}.tar.gz"
        upload(self.access, BUCKET, name, data)
        return {
            "storage": self.cloud.endpoints.storage, "secretmanager": "http://127.0.0.1:1",
            "bucket": "my-bucket", "object": name, "sha256": sha,
            "argv": ["train.py", "--lr", "$(id)"],
        }  # fmt: skip

    def run(self, order, **env):
        container = self.start(order, **env)
        output, _ = container.communicate(timeout=60)
        return container.returncode, output

    def start(self, order, **env):
        return subprocess.Popen(
            [sys.executable, "-c", loader(), json.dumps(order)],
            env={**os.environ, **env},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip


def told(output):
    """What the stand-in for the agent was started with."""
    return json.loads(next(line for line in output.splitlines() if line.startswith("agent "))[6:])
