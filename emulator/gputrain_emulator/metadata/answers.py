"""What the metadata server answers: paths, formats and refusals, without the HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gputrain_emulator.metadata.tree import MISSING, Metadata, children, etag, is_directory

ROOT = "/computeMetadata/v1/"
MAX_WAIT_S = 3600.0
NO_MAINTENANCE = '{ "error": "no notifications have been received yet, try again later" }'


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One response; `location` is set for a redirect."""

    status: int = 200
    text: str = ""
    kind: str = "application/text"
    etag: str = ""
    location: str = ""


@dataclass(frozen=True, kw_only=True)
class Question:
    """One request: header names in lower case, the last value of each query parameter."""

    verb: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


def answer(metadata: Metadata, question: Question) -> Answer:
    """What Google's metadata server says to `question`."""
    if "x-forwarded-for" in question.headers:
        return _refusal(403, "Forbidden: requests with an X-Forwarded-For header are refused.")
    above = {"": "computeMetadata/\n", "/computeMetadata": "v1/\n"}
    if question.verb == "GET" and question.path.rstrip("/") in above:
        return Answer(text=above[question.path.rstrip("/")])
    if question.headers.get("metadata-flavor", "").lower() != "google":
        return _refusal(403, "Missing Metadata-Flavor:Google header.")
    if not (question.path + "/").startswith(ROOT):
        return _refusal(404, "The requested URL was not found on this server.")
    path = question.path[len(ROOT) :]
    if path.strip("/").startswith("instance/guest-attributes"):
        return _refusal(403, "Guest attributes endpoint access is disabled.")  # as Google says unless asked
    if question.verb not in ("GET", "HEAD"):
        return _refusal(405, f"Method {question.verb} is not allowed here.")
    dynamic = re.fullmatch(r"instance/service-accounts/([^/]+)/(token|identity)", path)
    if dynamic:
        return _account(metadata, question, *dynamic.groups())
    return _value(metadata, question, path)


def _value(metadata: Metadata, question: Question, path: str) -> Answer:
    value = metadata.at(path)
    if value is not MISSING and question.query.get("wait_for_change", "").lower() == "true":
        seconds = _seconds(question.query.get("timeout_sec", ""))
        value = metadata.wait(path, question.query.get("last_etag"), seconds)
    if value is MISSING:
        if path.strip("/") == "instance/upcoming-maintenance":
            return Answer(status=503, text=NO_MAINTENANCE, kind="application/json")
        return _refusal(404, "The requested URL was not found on this server.")
    recursive = question.query.get("recursive", "").lower() == "true"
    form = question.query.get("alt", "json" if recursive else "text")
    if form not in ("json", "text"):
        return _refusal(400, f"Invalid alt: {form!r}.")
    if is_directory(value) and not recursive and not question.path.endswith("/"):
        return Answer(status=301, location=question.path + "/")
    if form == "json" and (recursive or not is_directory(value)):
        return Answer(text=json.dumps(value), kind="application/json", etag=etag(value))
    text = _listing(value, path) if is_directory(value) and not recursive else _plain(value, recursive, path)
    return Answer(text=text, etag=etag(value))


def _listing(value: Any, path: str) -> str:
    names = [
        name + ("/" if is_directory(item) or name == "attributes" else "")
        for name, item in children(value, verbatim=_is_users(path))
    ]
    if re.fullmatch(r"instance/service-accounts/[^/]+/?", path):
        names = sorted([*names, "identity", "token"])
    return "".join(name + "\n" for name in names)


def _plain(value: Any, recursive: bool, path: str) -> str:
    if recursive and is_directory(value):
        return "".join(f"{name} {text}\n" for name, text in _leaves(value, path.strip("/"), ""))
    if isinstance(value, list):
        return (
            json.dumps(value)
            if path.strip("/") == "instance/tags"
            else "".join(f"{item}\n" for item in value)
        )
    return str(value)


def _leaves(value: Any, path: str, below: str) -> list[tuple[str, str]]:
    found = []
    for name, item in children(value, verbatim=_is_users(path)):
        place = f"{below}{name}"
        if is_directory(item):
            found += _leaves(item, f"{path}/{name}", place + "/")
        else:
            found.append((place, _plain(item, False, f"{path}/{name}")))
    return found


def _is_users(path: str) -> bool:
    return path.strip("/").split("/")[1:2] == ["attributes"] or path.strip("/") == "instance/service-accounts"


def _account(metadata: Metadata, question: Question, name: str, what: str) -> Answer:
    account = metadata.account(name)
    if account is None:
        return _refusal(404, "The requested URL was not found on this server.")
    if what == "identity":
        return _refusal(501, "Identity tokens are not implemented by this emulator.")
    asked = [scope for scope in question.query.get("scopes", "").split(",") if scope]
    token, seconds = account.mint(asked)
    document = {"access_token": token, "expires_in": seconds, "token_type": "Bearer"}
    return Answer(text=json.dumps(document), kind="application/json")


def _seconds(text: str) -> float:
    try:
        return min(max(float(text), 0.0), MAX_WAIT_S)
    except ValueError:
        return MAX_WAIT_S


def _refusal(status: int, text: str) -> Answer:
    head = f"<!DOCTYPE html>\n<html lang=en>\n<title>Error {status}</title>\n"
    return Answer(
        status=status, text=f"{head}<p><b>{status}.</b> {text}\n</html>\n", kind="text/html; charset=UTF-8"
    )
