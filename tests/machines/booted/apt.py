"""A repository of Debian packages on a machine's own disk, and an image of the userland that knows it."""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from gputrain_emulator.live import USERLAND

PLACE = "/srv/apt"


def package(folder: Path, name: str, files: Mapping[str, str]) -> str:
    """Build a package of files, each with its text; its row in the list of packages."""
    root = folder / name
    (root / "DEBIAN").mkdir(parents=True)
    about = (
        f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: tests <a@b>\nDescription: of a test\n"
    )
    (root / "DEBIAN" / "control").write_text(about)
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)
        (root / path).chmod(0o755 if "bin" in path else 0o644)
    file = folder / f"{name}.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", root, file], check=True, capture_output=True)
    data = file.read_bytes()
    return (
        f"{about}Filename: ./{file.name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"
    )


@contextlib.contextmanager
def image(folder: Path, packages: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """The name of an image whose apt-get finds these packages, and no others."""
    served = folder / "apt"
    served.mkdir()
    (served / "Packages").write_text("".join(package(served, *one) for one in packages.items()))
    (folder / "sources.list").write_text(f"deb [trusted=yes] file:{PLACE} ./\n")
    name = f"localhost/gce-vm-{folder.name.lower()}:1"
    holder = _podman("create", USERLAND, "/bin/true")
    try:
        _podman("cp", str(served), f"{holder}:{PLACE}")
        _podman("cp", str(folder / "sources.list"), f"{holder}:/etc/apt/sources.list")
        _podman("commit", "--quiet", holder, name)
        yield name
    finally:
        _podman("rm", "--force", holder)
        _podman("rmi", "--force", name)


def _podman(*words: str) -> str:
    done = subprocess.run(["podman", *words], capture_output=True, text=True, check=True)
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""
