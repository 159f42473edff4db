"""Writes what Cloud Storage's discovery document says of its messages and parameters as tables.

    python emulator/scripts/storage_tables.py emulator/gputrain_emulator/data

The document is the one that the package google-api-python-client ships. It marks nothing as output only, so
that is told here, from the descriptions of the fields (revision 20261009, read 2026-11-22).
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

REQUESTS = ("Bucket", "Object", "ComposeRequest")
"""What a request's body may be; the messages inside them follow."""

ANSWERS = (
    "Buckets", "BucketStorageLayout", "ManagedFolders", "Objects", "RewriteResponse",
    "TestIamPermissionsResponse",
)  # fmt: skip
"""What answers are beside; a client's selection of fields is read by them."""

OUTPUT_ONLY = frozenset(
    {
        "Bucket.autoclass.terminalStorageClassUpdateTime", "Bucket.autoclass.toggleTime",
        "Bucket.encryption.customerManagedEncryptionEnforcementConfig.effectiveTime",
        "Bucket.encryption.customerSuppliedEncryptionEnforcementConfig.effectiveTime",
        "Bucket.encryption.googleManagedEncryptionEnforcementConfig.effectiveTime",
        "Bucket.etag", "Bucket.generation", "Bucket.hardDeleteTime",
        "Bucket.iamConfiguration.bucketPolicyOnly.lockedTime",
        "Bucket.iamConfiguration.uniformBucketLevelAccess.lockedTime",
        "Bucket.id", "Bucket.kind", "Bucket.locationType", "Bucket.metageneration", "Bucket.objectRetention",
        "Bucket.owner", "Bucket.projectNumber", "Bucket.retentionPolicy.effectiveTime",
        "Bucket.retentionPolicy.isLocked", "Bucket.satisfiesPZI", "Bucket.satisfiesPZS", "Bucket.selfLink",
        "Bucket.softDeletePolicy.effectiveTime", "Bucket.softDeletePolicy.hardDeletePause.effectiveTime",
        "Bucket.softDeleteTime", "Bucket.timeCreated", "Bucket.updated", "ComposeRequest.kind",
        "Object.bucket", "Object.componentCount", "Object.customerEncryption", "Object.etag",
        "Object.generation", "Object.hardDeleteTime", "Object.id", "Object.kind", "Object.kmsKeyName",
        "Object.mediaLink", "Object.metageneration", "Object.owner", "Object.restoreToken",
        "Object.retentionExpirationTime", "Object.selfLink", "Object.size", "Object.softDeleteTime",
        "Object.timeCreated", "Object.timeDeleted", "Object.timeFinalized", "Object.timeStorageClassUpdated",
        "Object.updated", "ObjectCustomContextPayload.createTime", "ObjectCustomContextPayload.updateTime",
    }
)  # fmt: skip


def field_rows(schemas: Mapping[str, Any]) -> list[dict[str, str]]:
    """One row for each field of the messages; a nested message is named by its path."""
    rows: list[dict[str, str]] = []
    waiting = [(name, schemas[name]) for name in (*REQUESTS, *ANSWERS)]
    seen = {*REQUESTS, *ANSWERS}
    while waiting:
        message, schema = waiting.pop(0)
        for name, inner in sorted(schema["properties"].items()):
            place = f"{message}.{name}"
            many, one = _many(inner)
            kind = one.get("$ref") or (place if "properties" in one else one.get("format", one["type"]))
            if ("$ref" in one or "properties" in one) and kind not in seen:
                seen.add(kind)
                waiting.append((kind, schemas.get(kind, one)))
            rows.append(
                {
                    "message": message,
                    "field": name,
                    "type": kind,
                    "many": many,
                    "values": " ".join(one.get("enum", ())),
                    "output": "yes" if place in OUTPUT_ONLY else "",
                }
            )
    return rows


def answer_rows(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """One row for each method that answers with a message of the first table."""
    return [
        {"method": method["id"], "message": method["response"]["$ref"]}
        for method in sorted(_methods(document), key=lambda method: str(method["id"]))
        if method.get("response", {}).get("$ref") in (*REQUESTS, *ANSWERS)
    ]


def parameter_rows(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """One row for each query parameter of each method."""
    return [
        {
            "method": method["id"],
            "parameter": name,
            "type": parameter.get("format", parameter["type"]),
            "values": " ".join(parameter.get("enum", ())),
            "many": "list" if parameter.get("repeated") else "",
            "required": "yes" if parameter.get("required") else "",
        }
        for method in sorted(_methods(document), key=lambda method: str(method["id"]))
        for name, parameter in sorted(method.get("parameters", {}).items())
        if parameter["location"] == "query"
    ]


def tables() -> dict[str, str]:
    """The tables as text, by the name of their file."""
    place = files("googleapiclient.discovery_cache") / "documents" / "storage.v1.json"
    document = json.loads(place.read_text(encoding="utf-8"))
    rows = {
        "storage_answers.csv": answer_rows(document),
        "storage_fields.csv": field_rows(document["schemas"]),
        "storage_parameters.csv": parameter_rows(document),
    }
    return {name: _text(found) for name, found in rows.items()}


def _many(schema: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    if schema.get("type") == "array":
        return "list", schema["items"]
    if "additionalProperties" in schema:
        return "map", schema["additionalProperties"]
    return "", schema


def _methods(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from node.get("methods", {}).values()
    for child in node.get("resources", {}).values():
        yield from _methods(child)


def _text(rows: list[dict[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


if __name__ == "__main__":
    for name, text in tables().items():
        (Path(sys.argv[1]) / name).write_text(text, encoding="utf-8")
