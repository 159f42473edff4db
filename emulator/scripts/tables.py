"""Write the tables of Google's methods and messages that the emulator reads its requests by.

``python emulator/scripts/tables.py`` after a change of the clients' versions, or when a method of a client is
answered for the first time; ``emulator/tests/test_tables.py`` fails until then. Needs google-cloud-compute,
google-cloud-aiplatform and google-api-python-client.

- ``routes.tsv``: the methods of the two clients that are answered, from their generated REST transports.
- ``messages.tsv``, ``enums.tsv``: what these methods read and tell, from the clients' descriptors.
- ``services.tsv``: the names of Google's APIs.
- ``unserved.tsv``: every other path of all of Google's discovery documents: 501 instead of 404.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Iterator
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from gputrain_emulator import batch, services
from gputrain_emulator.errors import ApiError, Style
from gputrain_emulator.routes import Method, Routes

DATA = Path(__file__).parents[1] / "gputrain_emulator" / "data"
CLIENTS = {"compute": "google.cloud.compute_v1", "aiplatform": "google.cloud.aiplatform_v1"}
SOURCES = ("google-cloud-compute", "google-cloud-aiplatform", "google-api-python-client")
FIRST = (
    "compute", "aiplatform", "storage", "logging", "iam", "iamcredentials", "cloudresourcemanager",
    "serviceusage", "cloudbilling", "secretmanager", "artifactregistry",
)  # fmt: skip
"""Where one path is in many APIs, these are named before others: they are what is spoken to here."""
NAMED = 3
"""So many methods of one path are named, and the others counted."""
DOCUMENTS = files("googleapiclient.discovery_cache") / "documents"
KINDS = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "uint64", 7: "uint32", 8: "bool",
    9: "string", 11: "message", 12: "bytes", 13: "uint32", 14: "enum", 15: "int32", 16: "int64", 17: "int32",
    18: "int64",
}  # fmt: skip
"""JSON kinds by the field types of descriptor.proto."""


def sources() -> str:
    """The packages the tables are made from, with their versions."""
    return ", ".join(f"{name} {version(name)}" for name in SOURCES)


def tables() -> dict[str, str]:
    """Every table by the name of its file."""
    answered = {id_ for service in services.all_services() for id_ in service.handlers}
    every = [row for name, package in CLIENTS.items() for row in client_routes(name, package)]
    ours = [row for row in every if row[1] in answered]
    messages, enums = described([message for row in ours for message in row[5:] if message is not None])
    every_document = documents()
    lines = ["\t".join([*row[:5], *(one.full_name if one else "" for one in row[5:])]) for row in ours]
    return {
        "routes.tsv": _file("service\tid\tverb\tpath\tbody\trequest\tresponse", lines),
        "messages.tsv": _file("message\tfields: NAME[=JSON]:[*]KIND[@TYPE][|ONEOF]", messages),
        "enums.tsv": _file("enum\tNAME=NUMBER", enums),
        "services.tsv": _file("service", sorted(set(hosts(every_document)))),
        "unserved.tsv": _file("versions\tverb\tpath\tids", unserved(ours, every_document)),
    }


def _file(columns: str, lines: list[str]) -> str:
    head = f"# Made by emulator/scripts/tables.py from {sources()}.\n# {columns}\n"
    return head + "".join(f"{line}\n" for line in lines)


def client_routes(service: str, package: str) -> Iterator[tuple[str, str, str, str, str, Any, Any]]:
    """Service, id, verb, path, body's field, both descriptors of each method; a path counts once."""
    seen: set[tuple[str, str]] = set()
    home = importlib.import_module(f"{package}.services")
    for module in sorted(pkgutil.iter_modules(home.__path__), key=lambda found: found.name):
        transport = importlib.import_module(f"{package}.services.{module.name}.transports.rest")
        for name, cls in vars(transport).items():
            if not name.endswith("RestTransport") or name.startswith("_"):
                continue
            for rpc, stub in vars(cls).items():
                if not (isinstance(stub, type) and hasattr(stub, "_get_http_options")):
                    continue
                told = stub.__call__.__annotations__
                request, response = _descriptor(told.get("request")), _descriptor(told.get("return"))
                for option in stub._get_http_options():
                    path = (option["method"].upper(), option["uri"])
                    if path not in seen:
                        seen.add(path)
                        id_ = _method_id(service, name.removesuffix("RestTransport"), rpc[1:], option["uri"])
                        yield service, id_, *path, option.get("body") or "", request, response


def _descriptor(message: Any) -> Any:
    if not isinstance(message, type):
        return None
    pb = message.pb() if hasattr(message, "pb") else message
    return getattr(pb, "DESCRIPTOR", None)


def _method_id(service: str, group: str, rpc: str, template: str) -> str:
    """``compute.instances.insert``; ``aiplatform.customJobs.create`` for CreateCustomJob."""
    if service == "compute":
        return f"{service}.{_lower(group)}.{_lower(rpc)}"
    path, _, custom = template.partition("}:")
    words = [word for word in re.sub(r"\{[^=}]*=?|\}", "", path).split("/") if word not in ("*", "**")]
    last = words[-1] if words else service
    first = re.match(r"[A-Z][a-z0-9]*", rpc)
    verb = first.group(0).lower() if first else rpc
    return f"{service}.{last.partition(':')[0]}.{custom or last.partition(':')[2] or verb}"


def _lower(name: str) -> str:
    return name[0].lower() + name[1:]


def described(descriptors: list[Any]) -> tuple[list[str], list[str]]:
    """The lines of these messages and of all that they hold, and those of their enums."""
    messages: dict[str, str] = {}
    enums: dict[str, str] = {}
    left = list(descriptors)
    while left:
        descriptor = left.pop()
        if descriptor.full_name not in messages:
            fields = [_field(field, left, enums) for field in descriptor.fields]
            messages[descriptor.full_name] = "\t".join([descriptor.full_name, *fields])
    return [messages[name] for name in sorted(messages)], [enums[name] for name in sorted(enums)]


def _field(field: Any, left: list[Any], enums: dict[str, str]) -> str:
    head = field.name if field.json_name == _camel(field.name) else f"{field.name}={field.json_name}"
    kind = KINDS[field.type]
    if kind == "message":
        left.append(field.message_type)
        of = field.message_type.full_name
        kind = f"map@{of}" if field.message_type.GetOptions().map_entry else f"message@{of}"
    elif (enum := _enum_of(field)) is not None:
        kind = f"{kind}@{enum.full_name}"
        values = "\t".join(f"{value.name}={value.number}" for value in enum.values)
        enums[enum.full_name] = f"{enum.full_name}\t{values}"
    oneof = field.containing_oneof
    is_real = oneof is not None and not (oneof.name == f"_{field.name}" and len(oneof.fields) == 1)
    is_list = field.is_repeated and not kind.startswith("map@")
    return f"{head}:{'*' if is_list else ''}{kind}" + (f"|{oneof.name}" if is_real else "")


def _enum_of(field: Any) -> Any:
    """A field's enum; Compute writes most as strings and nests the enum, named after the field."""
    camel = field.json_name[0].upper() + field.json_name[1:]
    return field.enum_type or (
        field.containing_type.enum_types_by_name.get(camel) if KINDS[field.type] == "string" else None
    )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def unserved(rows: list[tuple[str, str, str, str, str, Any, Any]], every: list[dict[str, Any]]) -> list[str]:
    """Versions, verb, path and ids of what Google's documents have and no route of ours."""
    routes = Routes([])
    for service in services.all_services():
        for method in service.written:
            routes.add(method)
    for name, id_, verb, path, *_ in rows:
        routes.add(Method(id=id_, service=name, style=Style.PLATFORM, verb=verb, template=path))
    ids: dict[tuple[str, str, str], list[str]] = {}
    for document in every:
        for base, id_, verb, path in documented(document):
            if f"/{base}{path}" not in batch.PATHS and not _is_known(routes, verb, f"/{base}{path}"):
                ids.setdefault((base, verb, path), []).append(id_)
    bases: dict[tuple[str, str, str], list[str]] = {}
    for (base, verb, path), found in ids.items():
        bases.setdefault((verb, path, _told(list(dict.fromkeys(found)))), []).append(base)
    return sorted("\t".join([" ".join(sorted(found)), *key]) for key, found in bases.items())


def _told(ids: list[str]) -> str:
    return ", ".join(ids) if len(ids) <= NAMED else f"{', '.join(ids[:NAMED])} and {len(ids) - NAMED} more"


def _is_known(routes: Routes, verb: str, path: str) -> bool:
    try:
        routes.find(verb, path.replace("**", "x").replace("*", "x"))
    except ApiError:
        return False
    return True


def documents() -> list[dict[str, Any]]:
    """Every discovery document of the package, those of the APIs that are spoken to here first."""
    found = [json.loads(place.read_text()) for place in DOCUMENTS.iterdir() if place.name != "index.json"]
    order = {name: number for number, name in enumerate(FIRST)}
    return sorted(found, key=lambda one: (order.get(one["name"], len(order)), one["name"], one["version"]))


def hosts(every: list[dict[str, Any]]) -> Iterator[str]:
    """``compute`` of ``compute.googleapis.com``, for every API that Google describes."""
    for document in every:
        host = document.get("rootUrl", "").removeprefix("https://").rstrip("/")
        if host.count(".") == 2 and host.endswith(".googleapis.com"):
            yield host.partition(".")[0]
    yield "cloudquotas"  # described nowhere in the package


def documented(document: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Base (``compute/beta/``), id, verb and path of every method, with uploads and batches.

    In a path ``*`` is one segment, and ``**`` as many as there are.
    """
    served = document.get("servicePath", "")
    if document.get("batchPath", "batch") != "batch":
        yield "batch/", f"{document['name']}.batch", "POST", document["batchPath"].removeprefix("batch/")
    for method in _methods(document):
        verb, id_ = method["httpMethod"], method["id"]
        for path in _plain(served + (method.get("flatPath") or method["path"]), method):
            base = served or path[: path.find("/") + 1]
            yield base, id_, verb, path.removeprefix(base)
            for protocol in method.get("mediaUpload", {}).get("protocols", {}).values():
                before = protocol["path"].lstrip("/").partition(served or base)[0]
                yield f"{before}{base}", id_, verb, path.removeprefix(base)


def _plain(path: str, method: dict[str, Any]) -> Iterator[str]:
    """A path with ``*`` for its variables, ``**`` for those with slashes; once for each kind of parent."""
    patterns = [one.get("pattern", "") for one in method.get("parameters", {}).values()]
    head, colon, custom = path.partition(":")
    is_generic = not custom and head.count("/") == 1  # /download/** is one API's, and would hide all others'
    if any(pattern.endswith((".*$", ".+$")) for pattern in patterns) and not is_generic:
        head = re.sub(r"\{[^}]*\}(?!.*\})", "**", head)
    head = re.sub(r"\{[^}]*\}", "*", head)
    for parent in ("projects", "folders", "organizations") if re.match(r"v\w+/\*/\*", head) else ("*",):
        yield head.replace("*", parent, 1) + colon + custom


def _methods(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from node.get("methods", {}).values()
    for child in node.get("resources", {}).values():
        yield from _methods(child)


if __name__ == "__main__":
    for name, text in tables().items():
        (DATA / name).write_text(text)
