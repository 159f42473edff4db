"""usage: python locks/materials.py: the bill of materials of a release, CycloneDX 1.6.

What `pip install gputrain` brings, as cyclonedx-py finds it in this environment; it finds what the tests
need, too, and that is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gputrain

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def bill() -> dict[str, Any]:
    """The whole environment as a bill of materials, its root the project."""
    words = ["environment", "--pyproject", str(PROJECT), "--mc-type", "library", "--output-reproducible"]
    made = subprocess.run(
        [sys.executable, "-m", "cyclonedx_py", *words, "--spec-version", "1.6", sys.executable],
        check=True, capture_output=True,
    )  # fmt: skip
    return dict(json.loads(made.stdout))


def of_release(whole: dict[str, Any]) -> dict[str, Any]:
    """The part of it that an installation without extras brings, and our own version."""
    root, kept = whole["metadata"]["component"], brought("gputrain")
    root.update(version=gputrain.__version__, purl=f"pkg:pypi/gputrain@{gputrain.__version__}")
    whole["components"] = [one for one in whole["components"] if canonicalize_name(one["name"]) in kept]
    refs = {one["bom-ref"]: one["name"] for one in [root, *whole["components"]]}
    edges = {one["ref"]: one.get("dependsOn", []) for one in whole["dependencies"]}
    whole["dependencies"] = [
        {"ref": ref, "dependsOn": [to for to in edges.get(ref, []) if to in refs and _needs(name, refs[to])]}
        for ref, name in sorted(refs.items())
    ]
    return whole


def brought(name: str) -> set[str]:
    """All distributions that one brings, with the extras that are asked of them."""
    found, todo = set(), [Requirement(name)]
    while todo:
        one = todo.pop()
        for extra in ("", *one.extras):
            key = (canonicalize_name(one.name), extra)
            if key not in found:
                found.add(key)
                todo += [
                    need
                    for need in _required(one.name)
                    if not need.marker or need.marker.evaluate({"extra": extra})
                ]
    return {name for name, _ in found}


def _required(name: str) -> list[Requirement]:
    try:
        return [Requirement(line) for line in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:  # needed elsewhere, or by an older Python
        return []


def _needs(name: str, other: str) -> bool:
    return canonicalize_name(other) in {canonicalize_name(one.name) for one in _required(name)}


if __name__ == "__main__":
    print(json.dumps(of_release(bill()), indent=1))
