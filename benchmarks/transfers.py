"""Four gigabytes of checkpoints up and down, by a VM's mirror and by ``gcloud storage cp``.

It stands apart (`run.APART`): it takes minutes, 20 GB of disk, and gcloud.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Measure, alternated

import gputrain_emulator
from gputrain.keeper import alike
from gputrain_emulator import gcloud
from gputrain_emulator.live.vm import account
from gputrain_emulator.metadata import Metadata, MetadataServer

FILES, FILE_MIB = 8, 512
ROUNDS = 2
BUCKET = "my-bucket"


@contextmanager
def cloud_and_host() -> Iterator[tuple[gputrain_emulator.Cloud, str]]:
    """A cloud with a bucket, and a metadata server of a machine in it."""
    with gputrain_emulator.start(wall_clock=True) as cloud:
        cloud.add_bucket(BUCKET)
        accounts = {"vm@p": account(cloud.world, "vm@p", ())}
        server = MetadataServer(Metadata(read=lambda: {"instance": {}}, accounts=accounts))
        yield cloud, server.host
        server.close()


def saved(folder: Path) -> Path:
    """A folder of one step, saved in shards."""
    step = folder / "step-000000000001"
    step.mkdir(parents=True)
    block = os.urandom(1 << 20)
    for number in range(FILES):
        with (step / f"shard-{number}").open("wb") as file:
            file.writelines(block for _ in range(FILE_MIB))
    (step / "COMPLETE").touch()
    return folder


def ours(cloud: gputrain_emulator.Cloud, host: str, folder: Path, prefix: str) -> float:
    """Seconds in which a mirror fills a folder, and then sends what is new in it."""
    order = {
        "storage": cloud.endpoints.storage, "bucket": BUCKET, "prefix": prefix, "node": 0,
        "folder": str(folder), "killed": str(folder / "killed"), "is_strict": False,
    }  # fmt: skip
    words = [sys.executable, "-m", "gputrain.keeper.alike", json.dumps(order)]
    began = time.perf_counter()
    with subprocess.Popen(
        words, env={**os.environ, "GCE_METADATA_HOST": host}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().decode().strip() == alike.FILLED
        said, _ = process.communicate()
        assert process.returncode == 0
        assert said.decode() == f"{alike.UNSAVED}[]\n"
    return time.perf_counter() - began


def gclouds(cloud: gputrain_emulator.Cloud, home: Path, source: str, target: str) -> float:
    """Seconds of a ``gcloud storage cp`` with an empty configuration of its own."""
    there = gcloud.environment(cloud.endpoints.storage, home / "configuration", project=cloud.project)
    env = {**os.environ, **there}
    began = time.perf_counter()
    subprocess.run(["gcloud", "storage", "cp", "-r", source, target], env=env, check=True)
    return time.perf_counter() - began


def up(home: Path, source: Path, who: str) -> float:
    """Seconds for all of it into a cloud of its own, which goes with it."""
    with cloud_and_host() as (cloud, host):
        if who == "ours":
            return ours(cloud, host, source, "ckpt/")
        return gclouds(cloud, home, f"{source}/*", f"gs://{BUCKET}/ckpt/")


def down(cloud: gputrain_emulator.Cloud, host: str, home: Path, who: str) -> float:
    """Seconds for all of it into a new folder, which goes again."""
    back = home / "back"
    back.mkdir()
    took = (
        ours(cloud, host, back, "ckpt/")
        if who == "ours"
        else gclouds(cloud, home, f"gs://{BUCKET}/ckpt/*", f"{back}/")
    )
    assert sum(path.stat().st_size for path in back.rglob("shard-*")) == FILES * FILE_MIB << 20
    shutil.rmtree(back)
    return took


def measure() -> Iterator[Measure]:
    """Yield the figures; none without gcloud."""
    if shutil.which("gcloud") is None:
        return
    what = f"{FILES * FILE_MIB >> 10} GiB of checkpoints {{}}, to gcloud storage cp"
    with tempfile.TemporaryDirectory() as folder, cloud_and_host() as (cloud, host):
        home = Path(folder)
        source = saved(home / "source")
        took = alternated(
            {who: lambda who=who: up(home, source, who) for who in ("ours", "gcloud")},  # type: ignore[misc]  # mypy reads no default of a lambda
            rounds=ROUNDS, least=1, warm_up=0, most_s=120,
        )  # fmt: skip
        yield took.ratio("ours", "gcloud").measure(what.format("up"), target=2.0, note=took.note)
        ours(cloud, host, source, "ckpt/")
        took = alternated(
            {who: lambda who=who: down(cloud, host, home, who) for who in ("ours", "gcloud")},  # type: ignore[misc]
            rounds=ROUNDS, least=1, warm_up=0, most_s=120,
        )  # fmt: skip
        yield took.ratio("ours", "gcloud").measure(what.format("down"), target=2.0, note=took.note)
