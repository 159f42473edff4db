"""How a job ends on VMs that boot for real, and what pip brings beside an image.

It stands apart (`run.APART`): VMs boot for root alone, after `make engine`; without that their
figures are missing.
"""

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path

from compute_guest import live, submit
from measure import Measure, Spread

from gputrain import Local, Trainer
from gputrain.runtime import contract
from gputrain_emulator.live import USERLAND, why_no_userland

GRACE_S = float(contract.ENVIRONMENT[contract.GRACE][1])
NODES, RANKS = 2, 2
SAVE_S = 5.0
SAVES = f"""
import signal, sys, time
def save(*_):
    time.sleep({SAVE_S})
    print("saved at", time.time(), flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, save)
print("training", flush=True)
while True:
    time.sleep(0.01)
"""
HAS = ("torch", "numpy", "pyyaml", "requests", "typing-extensions")
"""What an image for training has, and this environment too; the index offers newer ones."""


def cancelled() -> tuple[float, float]:
    """Seconds from a cancel to the last rank's save, and from there until the last VM is gone."""
    with live(USERLAND) as cloud:
        job = submit(cloud, SAVES, num_nodes=NODES)
        training = 0
        for line in job.logs(follow=True):
            training += line.message == "training"
            if training == NODES * RANKS:
                break
        began = time.time()
        job.cancel()
        said = [line.message for line in job.logs() if line.message.startswith("saved at")]
        assert len(said) == NODES * RANKS, said
        saved = max(float(line.split()[-1]) for line in said)
        while cloud.compute.vms:
            time.sleep(0.05)
        gone = max(row.time for row in cloud.ledger.events("delete", "/instances/"))
        return saved - began, gone - saved


def cancels() -> Iterator[Measure]:
    saved, gone = zip(*(cancelled() for _ in range(2)))
    note = f"of {NODES} VMs with {RANKS} ranks each, which take {SAVE_S:.0f} s to save"
    what = "cancel to all ranks saved"
    yield Spread.of_times(saved).measure(what, target=GRACE_S, unit="s", note=note)
    yield Spread.of_times(gone).measure("all ranks saved to all VMs gone", target=20.0, unit="s", note=note)


class Index(SimpleHTTPRequestHandler):
    """A package index that has all that the image has, newer, and counts what is brought from it."""

    def __init__(self, brought: list[str], *words: object, directory: str) -> None:
        self._brought = brought
        super().__init__(*words, directory=directory)  # type: ignore[arg-type]  # as socketserver gives them

    def do_GET(self) -> None:
        self._brought += [self.path] if self.path.endswith(".whl") else []
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing: what is brought is counted."""


@contextmanager
def index(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Its address, and what is brought from it."""
    for name in HAS:
        place = folder / "simple" / name
        place.mkdir(parents=True)
        (place / f"{name.replace('-', '_')}-99.0-py3-none-any.whl").write_bytes(b"never to be read")
    brought: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Index, brought, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/simple", brought
        server.shutdown()


def requirements() -> Iterator[Measure]:
    """How many packages pip brings where the image has all that is required."""
    here = [name for name in HAS if any(True for _ in metadata.distributions(name=name))]
    with tempfile.TemporaryDirectory() as folder, index(Path(folder)) as (url, brought):
        script = Path(folder, "train.py")
        script.write_text("import torch\nprint(torch.__version__)\n")
        near = {"PIP_INDEX_URL": url, "PIP_NO_CACHE_DIR": "1", "PIP_CONFIG_FILE": os.devnull}
        trainer = Trainer(Local(gpus=0, root=Path(folder, "jobs")))
        trainer.submit(str(script), requirements=here, env=near).result()
    note = f"{', '.join(here)}; the index has newer ones"
    yield Measure(
        what="packages brought that the image has", value=len(brought), target=0, unit="", note=note
    )


def measure() -> Iterator[Measure]:
    """Yield the figures; those of a userland where this machine has one."""
    if why_no_userland(USERLAND) is None:
        yield from cancels()
    yield from requirements()
