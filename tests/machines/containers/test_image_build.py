"""An image of one's own: built by Podman, pushed to a real registry, run by jobs of both clouds."""

import base64
import io
import json
import os
import random
import subprocess
import tarfile

import pytest

from gputrain import Image, Trainer
from gputrain.google.registry import ImageName, find_manifest
from gputrain.images.recipe import DOCKERFILE, recipe
from gputrain_emulator.live import podman
from tests.machines.containers.conftest import HOST, IMAGE

ASK = "import sys\nprint('made with', open('/made').read().strip(), flush=True)\n"


@pytest.fixture
def engine(cloud, tmp_path):
    """Podman of this computer, with storage of its own and another file of hosts."""
    settings = tmp_path / "engine"
    settings.mkdir()
    texts = {
        "registries.conf": f'[[registry]]\nlocation = "{HOST}"\ninsecure = true\n',
        "storage.conf": f'[storage]\ndriver = "vfs"\nrunroot = "{settings}/run"\n'
        f'graphroot = "{settings}/graph"\n',
        "containers.conf": '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\n'
        'events_logger = "none"\n',
        "hosts": f"127.0.0.1 localhost\n{cloud.registry.address} {HOST}\n",
        "login.json": json.dumps({"auths": {HOST: {"auth": login(cloud)}}}),
        "podman": f"#!/bin/sh\nexec unshare --mount sh -c 'mount --bind {settings}/hosts /etc/hosts && exec "
        f'{podman.program("podman")} "$@"\' podman "$@"\n',
    }
    for name, text in texts.items():
        (settings / name).write_text(text)
    (settings / "podman").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("registries", "storage"):
            patch.setenv(f"CONTAINERS_{kind.upper()}_CONF", str(settings / f"{kind}.conf"))
        patch.setenv("CONTAINERS_CONF", str(settings / "containers.conf"))
        patch.setenv("REGISTRY_AUTH_FILE", str(settings / "login.json"))
        patch.setenv("PATH", f"{settings}:{podman.PLACES}:{os.environ['PATH']}")
        yield patch


def login(cloud):
    """What a user's own engine pulls with."""
    token = cloud.world.callers.issue(cloud.caller("person@example.com"))
    return base64.b64encode(f"oauth2accesstoken:{token}".encode()).decode()


def test_podman_builds_and_pushes_what_a_job_runs(cloud, backend, engine, tmp_path):
    for api in ("artifactregistry", "cloudbuild"):
        cloud.enable_api(api)
    context = tmp_path / "context"
    context.mkdir()
    (context / "made").write_text("care\n")
    (context / "Dockerfile").write_text(f"FROM {IMAGE}\nCOPY made /made\n")
    image = Image(dockerfile=context / "Dockerfile", builder="podman")
    trainer, lines = Trainer(backend), []
    built = trainer.build(image, on_line=lines.append, create_repository=True)
    pushed = find_manifest(backend.image_builder.access, ImageName.parse(built.reference))
    assert pushed.digest == built.digest
    assert any("COPY made /made" in line for line in lines)
    pushes = {who for who, path, _ in cloud.registry.seen if "/blobs/uploads/" in path}
    assert pushes == {cloud.owner.email}
    assert cloud.credentials.token not in "\n".join(lines)
    engine.undo()  # the VM is started by this computer's own Podman
    (tmp_path / "train.py").write_text(ASK)
    job = trainer.submit(tmp_path / "train.py", gpu="L4:1", image=image, max_run_duration="10m")
    job.wait(300, progress="none")
    job.result()
    assert any("made with care" in line.message for line in job.logs())
    assert job.spec.image == built.reference


PLAIN = ("a", "b", "ab", "c.txt", "d.py")
PARTS = (*PLAIN, "*", "**", "*b", "a*", "?", "*.txt", "[ab]", "a?", "[^a]*")
BEFORE = ("", "", "/", "./")


@pytest.mark.parametrize("seed", range(2))
def test_what_dockerignore_holds_back_podman_holds_back(engine, tmp_path, seed):
    """Lines that nobody chose; what comes back is named, as engines differ in what else does."""
    dice, root, built = random.Random(seed), tmp_path / "context", tmp_path / "built.tar"
    for first in PLAIN[:3]:
        for second in PLAIN[:3]:
            (root / first / second).mkdir(parents=True)
    for folder in (root, *root.glob("*"), *root.glob("*/*")):
        for name in PLAIN[3:]:
            (folder / name).write_text("1")
    (root / "Dockerfile").write_text("FROM scratch\nCOPY . /\n")
    for _ in range(8):
        lines = ["!Dockerfile"]
        for _ in range(dice.randint(1, 4)):
            sign = dice.choice(("", "", "!"))
            words = [dice.choice(PLAIN if sign else PARTS) for _ in range(dice.randint(1, 3))]
            lines.append(f"{sign}{dice.choice(BEFORE)}{'/'.join(words)}{dice.choice(('', '', '/'))}")
        (root / ".dockerignore").write_text("\n".join(lines))
        words = ["build", "--isolation", "chroot", "--output", f"type=tar,dest={built}", str(root)]
        subprocess.run(["podman", *words], check=True, capture_output=True)
        with tarfile.open(built) as theirs:
            expected = {one.name for one in theirs if one.isfile()}
        packed = recipe(Image(dockerfile=root / "Dockerfile")).archive
        with tarfile.open(fileobj=io.BytesIO(packed.data)) as ours:
            assert {one.name for one in ours} - {DOCKERFILE} == expected, lines
