"""A release says what it brings, in the form that scanners of vulnerabilities read."""

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import gputrain

ROOT = Path(__file__).parents[2]


def test_the_bill_of_materials_holds_what_an_installation_brings_and_no_more():
    pytest.importorskip("cyclonedx", reason="an environment older than locks/ has no cyclonedx-bom")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    made = subprocess.run(
        [sys.executable, ROOT / "locks" / "materials.py"], check=True, text=True, cwd=ROOT, stdout=-1
    ).stdout  # fmt: skip
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(made) is None
    bill = json.loads(made)
    root = bill["metadata"]["component"]
    assert (root["name"], root["version"]) == ("gputrain", gputrain.__version__)
    names = {canonicalize_name(one["name"]): one["version"] for one in bill["components"]}
    for one in map(Requirement, metadata.requires("gputrain")):
        if not one.marker or one.marker.evaluate({"extra": ""}):
            assert one.specifier.contains(names[canonicalize_name(one.name)])
    assert {"urllib3", "certifi", "grpcio", "protobuf"} <= names.keys(), (
        "what comes with those stands there too"
    )
    assert not {"pytest", "torch", "mypy", "gputrain-emulator"} & names.keys()
    assert all(one["purl"].startswith("pkg:pypi/") for one in bill["components"])
