"""A job as `gcloud ai custom-jobs create` takes it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gputrain.planning import GcloudJob


def to_gcloud(body: Mapping[str, Any]) -> GcloudJob:
    """The request of one custom job as a file and a command.

    Args:
        body: a request's body, ``{"parent": ..., "customJob": ...}``.
    """
    _, project, _, region = body["parent"].split("/")
    job = body["customJob"]
    labels = ",".join(f"{key}={value}" for key, value in sorted(job["labels"].items()))
    command = ["gcloud", "ai", "custom-jobs", "create", "--project", project, "--region", region]
    command += ["--display-name", job["displayName"], "--labels", labels, "--config", "config.yaml"]
    if "encryptionSpec" in job:
        command += ["--kms-key", job["encryptionSpec"]["kmsKeyName"]]
    return GcloudJob(config="\n".join(_yaml(job["jobSpec"])) + "\n", command=tuple(command))


def _yaml(value: Any, indent: str = "") -> list[str]:
    """Block style, every text in JSON's quotes, which are YAML's too: nothing in it is taken for syntax."""
    lines: list[str] = []
    if isinstance(value, Mapping):
        for key, one in value.items():
            lines += _entry(f"{indent}{key}:", one, indent)
    else:
        for one in value:
            if isinstance(one, (Mapping, list)) and one:
                first, *rest = _yaml(one, indent + "  ")
                lines += [f"{indent}- {first.lstrip()}", *rest]
            else:
                lines.append(f"{indent}- {_scalar(one)}")
    return lines


def _entry(head: str, one: Any, indent: str) -> list[str]:
    if isinstance(one, (Mapping, list)) and one:
        return [head, *_yaml(one, indent + "  ")]
    return [f"{head} {_scalar(one)}"]


def _scalar(one: Any) -> str:
    """JSON's way, but for letters beyond ASCII: YAML puts JSON's two halves of one together no more."""
    if not isinstance(one, str):
        return json.dumps(one)
    letters = (json.dumps(each)[1:-1] if each.isascii() else f"\\U{ord(each):08x}" for each in one)
    return '"' + "".join(letters) + '"'
