"""Builds images with this machine's own docker or podman, and pushes them."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from gputrain.errors import RequestError
from gputrain.fields import refused
from gputrain.gcp import Access
from gputrain.images.recipe import DOCKERFILE, Recipe

_KEPT = 20


def run(access: Access, program: str, recipe: Recipe, name: str, told: Callable[[str], None]) -> None:
    """Build and push an image.

    What the engine pulls, it pulls as this machine's user; it pushes with our token, which lies in a file of
    ours alone while it does.

    Raises:
        SpecError: there is no such program here.
        RequestError: it failed, with its last lines.
        AuthError: there is no token to push with.
    """
    found = shutil.which(program)
    if found is None:
        fix = f"install {program}, or leave builder out: Cloud Build needs nothing here"
        raise refused("builder", program, "a program of this machine", fix, what="the image cannot be built")
    platform = "linux/arm64" if "arm64" in name or "aarch64" in name else "linux/amd64"
    with tempfile.TemporaryDirectory(prefix="gputrain-image-") as folder:
        with tarfile.open(fileobj=io.BytesIO(recipe.archive.data)) as tar:
            tar.extractall(folder, filter="data")
        words = ["build", "--platform", platform, "--file", os.path.join(folder, DOCKERFILE), "--tag", name]
        _told([found, *words, folder], f"{name} was not built", told)
    with tempfile.TemporaryDirectory(prefix="gputrain-push-") as folder:
        path = os.path.join(folder, "config.json")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            json.dump({"auths": {name.partition("/")[0]: {"auth": _login(access)}}}, file)
        env = {**os.environ, "DOCKER_CONFIG": folder, "REGISTRY_AUTH_FILE": path}
        _told([found, "push", name], f"{name} was not pushed", told, env=env)


def _login(access: Access) -> str:
    """Our token as registries take it from engines."""
    from gputrain.gcp.wire import token_request  # with the session that pushing needs anyway

    access.sign_in()
    headers: dict[str, str] = {}
    access.locked_credentials().before_request(token_request(), "GET", "", headers)
    (bearer,) = (value for key, value in headers.items() if key.lower() == "authorization")
    return base64.b64encode(f"oauth2accesstoken:{bearer.removeprefix('Bearer ')}".encode()).decode()


def _told(
    words: Sequence[str], failure: str, told: Callable[[str], None], *, env: Mapping[str, str] | None = None
) -> None:
    kept: deque[str] = deque(maxlen=_KEPT)
    with subprocess.Popen(
        words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            kept.append(line)
            told(line)
    if process.returncode != 0:
        why = f"{os.path.basename(words[0])} {words[1]} ended with {process.returncode}"
        raise RequestError(failure, why=why + "".join(f"\n  {one}" for one in kept), fix="mend what it names")
