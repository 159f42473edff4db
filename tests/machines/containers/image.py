"""A small image with a Python, made of files of this computer and sent to a registry over its own API."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import urllib.request
from collections.abc import Iterable
from pathlib import Path

LEFT_OUT = shutil.ignore_patterns(
    "test", "tests", "site-packages", "idlelib", "ensurepip", "tkinter", "turtledemo", "lib2to3",
    "__pycache__", "config-*", "*.a", "pydoc_data", "_test*", "_tkinter*",
)  # fmt: skip
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def root_file_system(root: Path, *, for_packages: Iterable[Path]) -> None:
    """This Python with its standard library, a shell, and the libraries of all these programs."""
    library, interpreter = Path(sysconfig.get_path("stdlib")), Path(os.path.realpath(sys.executable))
    shutil.copytree(library, root / "usr/lib" / library.name, ignore=LEFT_OUT)
    for folder in ("usr/bin", "bin", "sbin", "etc", "tmp", "proc", "sys", "dev", "run", "root", "var"):
        (root / folder).mkdir(parents=True)
    shutil.copy2(interpreter, root / "usr/bin/python3")
    shutil.copy2(os.path.realpath("/bin/sh"), root / "bin/sh")
    extensions = (root / "usr/lib" / library.name / "lib-dynload").glob("*.so")
    programs = [interpreter, Path("/bin/sh"), *extensions, *for_packages]
    for path in {needed for program in programs for needed in _libraries(program)}:
        target = root / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/nsswitch.conf").write_text("hosts: files\n")
    (root / "etc/image").write_text("made of this computer's files\n")


def _libraries(program: Path) -> list[str]:
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    words = [word for line in listed.splitlines() for word in line.split()]
    return [word for word in words if word.startswith("/") and "/site-packages/" not in word]


def push(root: Path | None, registry: str, name: str, *, env: dict[str, str], **own: object) -> str:
    """Send an image of one layer, of none without ``root``, tagged ``1``; its digest.

    registry: ``http://127.0.0.1:PORT``.
    own: more of its configuration, as ``Entrypoint``.
    """
    layers, blobs = [], []
    if root is not None:
        plain = io.BytesIO()
        with tarfile.open(fileobj=plain, mode="w") as tar:
            tar.add(root, arcname=".")
        layers.append(_digest(plain.getvalue()))
        blobs.append(gzip.compress(plain.getvalue(), 1))
    config = {
        "architecture": ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {"Env": [f"{key}={value}" for key, value in env.items()], **own},
        "rootfs": {"type": "layers", "diff_ids": layers},
    }
    blobs.append(json.dumps(config).encode())
    *rows, about = [{"size": len(blob), "digest": _send(registry, name, blob)} for blob in blobs]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": CONFIG, **about},
        "layers": [{"mediaType": LAYER, **row} for row in rows],
    }
    body = json.dumps(manifest).encode()
    _call("PUT", f"{registry}/v2/{name}/manifests/1", body, MANIFEST)
    return _digest(body)


def _send(registry: str, name: str, blob: bytes) -> str:
    digest = _digest(blob)
    place = _call("POST", f"{registry}/v2/{name}/blobs/uploads/", b"", LAYER)
    _call("PUT", f"{place}{'&' if '?' in place else '?'}digest={digest}", blob, "application/octet-stream")
    return digest


def _call(method: str, url: str, body: bytes, kind: str) -> str:
    request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return str(reply.headers.get("Location", ""))


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
