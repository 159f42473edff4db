"""Write the tables of Google's methods and messages that the emulator reads its requests by.

``python emulator/scripts/tables.py`` after a change of the clients' versions, or when a method of a client is
answered for the first time; ``emulator/tests/test_tables.py`` fails until then. Needs google-cloud-compute,
google-cloud-aiplatform and google-api-python-client.

- ``routes.tsv``: the methods that are answered, from the two clients' REST transports and from discovery
  documents.
- ``messages.tsv``, ``enums.tsv``: what these methods read and tell, from the clients' descriptors and from
  discovery documents.
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

from gputrain_emulator import routes

DATA = Path(__file__).parents[1] / "gputrain_emulator" / "data"
CLIENTS = {"compute": "google.cloud.compute_v1", "aiplatform": "google.cloud.aiplatform_v1"}
SOURCES = ("google-cloud-compute", "google-cloud-aiplatform", "google-api-python-client")
DOCUMENTS = files("googleapiclient.discovery_cache") / "documents"
DOCUMENTED = {
    "storage": ("storage.v1", ()),
    "logging": ("logging.v2", ()),
    "cloudbuild": ("cloudbuild.v1", ()),
    "artifactregistry": ("artifactregistry.v1", ()),
    "cloudbilling": ("cloudbilling.v1", ()),
    "iam": ("iam.v1", ("TestIamPermissionsRequest",)),
}
"""Services read by their discovery documents: the document, and bodies of routes that are written by hand."""

FORMATS = {
    "google-datetime": "message@google.protobuf.Timestamp", "date-time": "message@google.protobuf.Timestamp",
    "google-duration": "message@google.protobuf.Duration", "google-fieldmask": "string", "byte": "bytes",
    "int32": "int32", "uint32": "uint32", "int64": "int64", "uint64": "uint64", "double": "double",
    "float": "float",
}  # fmt: skip
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
    homes = [importlib.import_module(f"gputrain_emulator.{name}") for name in routes.HOMES]
    answered = {id_ for home in homes for service in home.SERVICES for id_ in service.handlers}
    every = [row for name, package in CLIENTS.items() for row in client_routes(name, package)]
    ours = [row for row in every if row[1] in answered]
    messages, enums = described([message for row in ours for message in row[5:] if message is not None])
    lines = ["\t".join([*row[:5], *(one.full_name if one else "" for one in row[5:])]) for row in ours]
    for name, (document, bodies) in DOCUMENTED.items():
        reader = Documented(name, json.loads((DOCUMENTS / f"{document}.json").read_text()))
        lines += reader.routes(answered)
        for body in bodies:
            reader.add(body)
        messages += [reader.messages[one] for one in sorted(reader.messages)]
        enums += [reader.enums[one] for one in sorted(reader.enums)]
    messages.append("google.protobuf.Struct")
    return {
        "routes.tsv": _file("service\tid\tverb\tpath\tbody\trequest\tresponse", lines),
        "messages.tsv": _file("message\tfields: NAME[=JSON]:[*]KIND[@TYPE][|ONEOF]", messages),
        "enums.tsv": _file("enum\tNAME=NUMBER", enums),
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


class Documented:
    """The messages of one discovery document, in the form of the tables."""

    def __init__(self, service: str, document: dict[str, Any]) -> None:
        self.service, self.document = service, document
        self.messages: dict[str, str] = {}
        self.enums: dict[str, str] = {}

    def routes(self, answered: set[str]) -> list[str]:
        """The rows of the answered methods; what each reads is a message of its own, called as it is."""
        rows = []
        for method in sorted(_methods(self.document), key=lambda method: str(method["id"])):
            if method["id"] not in answered:
                continue
            body, response = method.get("request"), method.get("response", {}).get("$ref", "")
            fields = dict(method.get("parameters", {}))
            if body:
                fields["resource"] = body
            self._message(method["id"], fields)
            if response:
                self.add(response)
            path = "/" + self.document["servicePath"] + method.get("flatPath", method["path"])
            path = re.sub(r"\{(\w+?)(?:(ie)s|s)Id\}", lambda one: f"{{{one[1]}{'y' * bool(one[2])}}}", path)
            answer = f"{self.service}.{response}" if response else ""
            row = (self.service, method["id"], method["httpMethod"], path, "resource" if body else "")
            rows.append("\t".join([*row, method["id"], answer]))
        return rows

    def add(self, schema: str) -> None:
        """A message of the document, and all that it holds."""
        if f"{self.service}.{schema}" not in self.messages:
            self._message(f"{self.service}.{schema}", self.document["schemas"][schema].get("properties", {}))

    def _message(self, name: str, properties: dict[str, Any]) -> None:
        self.messages[name] = ""  # it may hold itself
        fields = [self._field(name, field, of) for field, of in sorted(properties.items())]
        self.messages[name] = "\t".join([name, *fields])

    def _field(self, message: str, name: str, schema: dict[str, Any]) -> str:
        snake = re.sub("[A-Z]", lambda found: f"_{found.group().lower()}", name)
        head = snake if _camel(snake) == name else f"{name}={name}"
        place = f"{message}.{name}"
        if schema.get("type") == "array":
            return f"{head}:*{self._kind(place, schema['items'])}"
        if "additionalProperties" not in schema:
            return f"{head}:{'*' if schema.get('repeated') else ''}{self._kind(place, schema)}"
        if schema["additionalProperties"].get("type") == "any":
            return f"{head}:message@google.protobuf.Struct"
        value = self._kind(place, schema["additionalProperties"])
        self.messages[f"{place}Entry"] = f"{place}Entry\tkey:string\tvalue:{value}"
        return f"{head}:map@{place}Entry"

    def _kind(self, place: str, schema: dict[str, Any]) -> str:
        if "$ref" in schema:
            self.add(schema["$ref"])
            return f"message@{self.service}.{schema['$ref']}"
        if "properties" in schema:
            self._message(place, schema["properties"])
            return f"message@{place}"
        if "enum" in schema:
            values = "\t".join(f"{value}={number}" for number, value in enumerate(schema["enum"]))
            self.enums[place] = f"{place}\t{values}"
            return f"enum@{place}"
        if schema.get("type") in ("any", "object", None):
            return "message@google.protobuf.Struct"
        return FORMATS.get(schema.get("format", ""), {"boolean": "bool"}.get(schema["type"], "string"))


def _methods(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from node.get("methods", {}).values()
    for child in node.get("resources", {}).values():
        yield from _methods(child)


if __name__ == "__main__":
    for name, text in tables().items():
        (DATA / name).write_text(text)
