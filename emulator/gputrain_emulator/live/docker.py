"""The docker of an emulated machine, a program of its own: Docker's words, said to the machine's Podman.

Only what this computer or Podman 4 cannot do is said otherwise:

- ``--gpus`` is answered as NVIDIA's toolkit does where the machine has none, and is left out where it has;
- a limit above this computer's own is left out, and those that runc would raise are stated;
- a registry on a loopback address is spoken to without TLS, which Docker does by itself;
- ``DOCKER_CONFIG`` says where logins are kept.

Options that reach beyond the machine (``--privileged``, ``--pid``, ``--device``, ...) are refused.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
from typing import Any

FLAGS = ("--rm", "--init", "--detach", "-d", "--interactive", "-i")
VALUED = (
    "--gpus", "--network", "--ipc", "--shm-size", "--ulimit", "--stop-timeout", "--volume", "-v", "--workdir",
    "-w", "--env", "-e", "--env-file", "--entrypoint", "--name", "--hostname", "--add-host", "--user", "-u",
    "--label", "--pull",
)  # fmt: skip
PASSED_ON = (
    "ps", "wait", "stop", "kill", "rm", "logs", "image", "images", "inspect", "version", "info", "logout",
)  # fmt: skip
REFUSED = 125  # docker's status for what the engine itself could not do
NO_GPU = 'could not select device driver "" with capabilities: [[gpu]].'


class Refusal(Exception):
    """The engine does not do that; the text is for the person who asked."""


def main(own: dict[str, Any], arguments: list[str]) -> None:
    """Say `arguments` to Podman; never returns."""
    if own["refusal"]:
        sys.exit(_refuse(f"no container engine on this emulated machine: {own['refusal']}"))
    try:
        words = _translated(own, arguments)
    except Refusal as refusal:
        sys.exit(_refuse(f"Error response from daemon: {refusal}"))
    environment = {**os.environ, **own["environment"], "PATH": os.environ.get("PATH", "")}
    program = [own["program"], "--remote", "--url", "unix://" + own["socket"]]
    os.execve(program[0], [*program, *words], environment)  # noqa: S606 - the words are nobody's shell's


def _translated(own: dict[str, Any], arguments: list[str]) -> list[str]:
    word, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if word == "run":
        return ["run", "--cgroup-parent", "/" + own["cgroup"], *_limits(), *_options(own, rest)]
    if word in ("login", "pull") and rest:
        kept = os.environ.get("DOCKER_CONFIG")
        logins = ["--authfile", os.path.join(kept, "config.json")] if kept else []
        host = rest[-1].removeprefix("https://").partition("/")[0]
        plain = ["--tls-verify=false"] if _is_loopback(host.partition(":")[0]) else []
        return [word, *logins, *plain, *rest[:-1], host if word == "login" else rest[-1]]
    if word in PASSED_ON:
        return arguments
    raise Refusal(f"an emulated machine does not know docker {word}")


def _options(own: dict[str, Any], words: list[str]) -> list[str]:
    """The words of `run`, up to the image as Podman takes them; the rest is the container's own."""
    kept, left = [], list(words)
    while left and left[0].startswith("-"):
        name, is_joined, value = left.pop(0).partition("=")
        if name in FLAGS and not is_joined:
            kept.append(name)
            continue
        if name not in VALUED:
            raise Refusal(f"an emulated machine does not allow docker run {name}")
        value = value if is_joined else left.pop(0)
        if name == "--gpus":
            if not own["gpus"]:
                raise Refusal(NO_GPU)
        elif name != "--ulimit" or _is_allowed(value):
            kept += [name, value]
    return [*kept, *left]


def _limits() -> list[str]:
    """Those that runc sets to numbers of its own, above what this computer allows."""
    words = []
    for name, kind in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        hard = resource.getrlimit(kind)[1]
        words += ["--ulimit", f"{name}={hard}:{hard}"]
    return words


def _is_allowed(limit: str) -> bool:
    name, _, values = limit.partition("=")
    hard = resource.getrlimit(getattr(resource, "RLIMIT_" + name.upper()))[1]
    wanted = int(values.rpartition(":")[2])
    return hard == resource.RLIM_INFINITY or 0 <= wanted <= hard


def _is_loopback(host: str) -> bool:
    """Docker's rule: a name counts when one of its addresses does."""
    try:
        return any(address.startswith("127.") for address in socket.gethostbyname_ex(host)[2])
    except OSError:
        return False


def _refuse(message: str) -> int:
    print("docker: " + message, file=sys.stderr)
    return REFUSED
