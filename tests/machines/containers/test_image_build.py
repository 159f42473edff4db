"""An image of one's own: built by Podman, pushed to a real registry, run by jobs of both clouds."""

import base64
import json
import os

import pytest

from gputrain import Image, Trainer
from gputrain.google.registry import ImageName, find_digest
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
    pushed = find_digest(backend.image_builder.access, ImageName.parse(built.reference))
    assert pushed == built.digest
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
