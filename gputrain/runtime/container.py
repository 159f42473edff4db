"""The container engine of this VM, and the user's image: brought, and the words that run the agent in it.

An engine that the boot image lacks is installed: docker and NVIDIA's toolkit. What it keeps, images above
all, lies where the job's data does where that is on local SSD.

Values of variables reach the container in a file: not on a command line, which everybody on the VM can read,
and not in the environment of docker itself, which would take a PATH or a DOCKER_HOST for its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import processes
from .cloud import access_token
from .devices import Call, fault_of, install, need, run
from .mounts import ROOT as BUCKETS
from .supervisor import Failed

NAME = "gputrain"
GOOGLES = re.compile(r"[a-z0-9-]+\.pkg\.dev|([a-z]+\.)?gcr\.io")
"""Registries that take the VM's token; no other may see it."""

PULL_PAUSES_S = (1, 2, 0)
KILL_S = 30.0
ENTER = (
    "import json, os, sys; os.environ.update(json.load(open(sys.argv[1])));"
    " os.execv(sys.executable, [sys.executable] + sys.argv[2:])"
)
LIMITS = ("memlock=-1", "stack=67108864")
"""What NVIDIA's images ask for: locked memory for RDMA, and deep stacks."""

DEVICES = "/dev/infiniband", "/dev/dmabuf_import_helper"
FOLDERS = "/usr/local/gib", "/var/lib/tcpxo", "/var/lib/tcpx", "/run/tcpx", "/dev/aperture_devices"
"""What fast networks bring with them, on the VMs that have it: RDMA's devices, and NCCL's plugins.
Sources: dstack's shim, cluster-toolkit's blueprints, Google's GKE installers, read 2026-11-22."""


def fetch(image: str, call: Call) -> None:
    """Bring an image onto this VM; the login is forgotten afterwards. Raises Failed, and as ``call``."""
    registry = image.partition("/")[0]
    folder = tempfile.mkdtemp(prefix="gputrain-docker-")
    try:
        env = {**os.environ, "DOCKER_CONFIG": folder}
        if GOOGLES.fullmatch(registry):
            login = ["docker", "login", "-u", "oauth2accesstoken", "--password-stdin", "https://" + registry]
            run(call, login, f"docker login at {registry} failed", env=env, given=access_token().encode())
        pull(call, image, env)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def pull(call: Call, image: str, env: Mapping[str, str]) -> None:
    said = None
    for pause_s in PULL_PAUSES_S:
        said = fault_of(call, ["docker", "pull", "--quiet", image], env)
        if said is None:
            return
        time.sleep(pause_s)
    raise Failed(
        f"the image {image} cannot be pulled: {said}\nIs its name right, has the VM's account"
        " roles/artifactregistry.reader on its repository, and is there Private Google Access or Cloud NAT?"
    )


def words(
    image: str, python: str | None, argv: list[str], env: dict[str, str], root: str, home: str
) -> list[str]:
    """The command that runs Python with ``argv`` in the image, ``env`` added to the image's own variables. It
    shares the folder ``root`` with this VM; ``home`` is one below it."""
    path = os.path.join(home, "environment.json")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(env, file)
    return [
        *_start(),
        *["--user", "0:0", "--volume", f"{root}:{root}", "--workdir", home],
        *["--entrypoint", python or "python3", image, "-c", ENTER, path, *argv],
    ]


def as_it_is(image: str, own: Any, values: Mapping[str, str], names: Sequence[str]) -> list[str]:
    """The command that runs the image's own entry point; the node agent stays outside, and runs this.

    Args:
        values: variables for the container alone, none of them secret; docker would take some for its own.
        names: variables that it gets of the agent's environment: secrets are read there.
    """
    entrypoint = list(own["entrypoint"])
    return [
        *_start(),
        *[word for name in sorted(values) for word in ("--env", f"{name}={values[name]}")],
        *[word for name in sorted(names) for word in ("--env", name)],
        *[word for word in entrypoint[:1] for word in ("--entrypoint", word)],
        *[image, *entrypoint[1:], *own["args"]],
    ]


def _start() -> list[str]:
    return [
        *["docker", "run", "--rm", "--init", "--name", NAME, "--gpus", "all", "--network", "host"],
        *["--ipc", "host"],  # the VM's own shared memory, half of its RAM: data loaders pass batches in it
        *[word for limit in LIMITS for word in ("--ulimit", limit)],
        *[word for path in DEVICES if os.path.exists(path) for word in ("--device", path)],
        *[word for path in FOLDERS if os.path.isdir(path) for word in ("--volume", f"{path}:{path}")],
        *["--stop-timeout", "90", "--volume", f"{BUCKETS}:{BUCKETS}:rslave"],
    ]


def kill() -> None:
    """End everything in the container now; docker's own process passes no SIGKILL on."""
    with contextlib.suppress(OSError):
        processes.output_of(["docker", "kill", NAME], within_s=KILL_S)


DOCKER, TOOLKIT = "docker.io", "nvidia-container-toolkit"
KEEPS = "/var/lib/docker", "/var/lib/containerd"
UNITS = "docker.socket", "docker", "containerd"
KEY_URL = "https://nvidia.github.io/libnvidia-container/gpgkey"
KEY = "/usr/share/keyrings/nvidia-container-toolkit.asc"
SOURCE = "/etc/apt/sources.list.d/nvidia-container-toolkit.list"
SOURCE_LINE = "deb [signed-by=%s] https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /\n" % KEY
"""Source: "Installing the NVIDIA Container Toolkit", read 2026-11-22."""

HINT = (
    "take a boot image that has docker and NVIDIA's toolkit, or give VMs a way out: Cloud NAT, external_ip="
)


def prepare(call: Call, data: str | None, say: Callable[..., Any]) -> None:
    """Have a docker that gives GPUs to containers, and keeps what it has in `data`, if any. Raises Failed."""
    has_docker = shutil.which("docker") is not None
    if data is not None:
        _move(call, os.path.join(data, "engine"), has_docker)
    if not has_docker:
        say("this boot image has no docker: it is installed")
        need(call, DOCKER, HINT)
    if shutil.which("nvidia-ctk") is None:
        say("this boot image has no container toolkit of NVIDIA's: it is installed")
        if install(call, TOOLKIT) is not None:
            _know_nvidias_packages()
            need(call, TOOLKIT, HINT)
        has_docker = False
    if not has_docker:
        _run(call, "nvidia-ctk", "runtime", "configure", "--runtime=docker")
        _run(call, "systemctl", "restart", "docker")


def _move(call: Call, folder: str, has_docker: bool) -> None:
    """Let the engine keep what it keeps in a folder; what it has kept so far is of no job's."""
    if has_docker:
        call(["systemctl", "stop", *UNITS])  # those that there are
    for path in KEEPS:
        inside = os.path.join(folder, os.path.basename(path))
        os.makedirs(inside, exist_ok=True)
        os.makedirs(path, exist_ok=True)
        _run(call, "mount", "--bind", inside, path)
    if has_docker:
        _run(call, "systemctl", "start", "docker")


def _know_nvidias_packages() -> None:
    try:
        with urllib.request.urlopen(KEY_URL, timeout=60) as reply:
            key = reply.read()
    except OSError as error:
        raise Failed(
            f"{TOOLKIT} cannot be installed, as {KEY_URL} is out of reach ({error}): {HINT}"
        ) from None
    for path, content in ((KEY, key), (SOURCE, SOURCE_LINE.encode())):
        with open(path, "wb") as file:
            file.write(content)


def _run(call: Call, *words: str) -> None:
    run(call, words, f"{' '.join(words)} failed", HINT)
