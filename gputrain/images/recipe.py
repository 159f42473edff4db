"""What an image is made of, as bytes with a name: the same content has the same name everywhere."""

from __future__ import annotations

import os
import posixpath
import re
import tempfile
from fnmatch import fnmatchcase

import attrs

from gputrain.code.bundle import Archive, Survey, pack, read_dockerignore, reading, survey
from gputrain.errors import SpecError
from gputrain.fields import invalid
from gputrain.spec.image import Image
from gputrain.text import HIDDEN, secret_type

DOCKERFILE = "gputrain.Dockerfile"
"""Where the recipe lies in what is sent; a context may have a Dockerfile of its own beside it."""
_REQUIREMENTS = "gputrain-requirements.txt"
_ON_A_BASE = f"""FROM {{base}}
WORKDIR /opt/gputrain
COPY {_REQUIREMENTS} requirements.txt
RUN python3 -m pip list --format=freeze | grep -iE '^(torch|triton|nvidia-)' > constraints.txt || true
RUN python3 -m pip install --no-cache-dir -r requirements.txt -c constraints.txt
"""
"""PyTorch and what it brings stay those of the base, which suit its CUDA."""
_LONGEST_TAG = 128
_ARG = re.compile(r"\s*ARG\s+(\w+)=[\"']?([^\s\"']+)", re.IGNORECASE)
_FROM = re.compile(r"\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)
_COPY = re.compile(r"(?:COPY|ADD)\s+((?:--\S+\s+)*)([^$<[\"'\\]+)", re.IGNORECASE)


@attrs.frozen(kw_only=True)
class Recipe:
    """A Dockerfile and all that it reads, packed; nothing is built."""

    archive: Archive
    tag: str
    """By its content, and with the words of its base: a name tells which CUDA an image has."""


def recipe(image: Image) -> Recipe:
    """The recipe of an image. Raises SpecError where what goes in is not there, or may not travel."""
    if image.dockerfile is None:
        base = str(image.base)
        text = _ON_A_BASE.format(base=base) if image.requirements else f"FROM {base}\n"
        listed = "".join(f"{one}\n" for one in image.requirements)
        _check_secrets("requirements", listed)
        with tempfile.TemporaryDirectory() as empty:
            packed = pack(empty, made={DOCKERFILE: text.encode(), _REQUIREMENTS: listed.encode()})
        return _named(packed, base)
    text = _read(image.dockerfile)
    _check_secrets("dockerfile", text)
    with reading(folder := _folder(image)):
        docker = read_dockerignore(image.dockerfile, folder)
    instructions = _instructions(text)
    _check_copies(instructions, survey(folder, docker))
    packed = pack(folder, made={DOCKERFILE: text.encode(), **docker.sent}, docker=docker)
    return _named(packed, _last_base(instructions))


def _named(packed: Archive, base: str) -> Recipe:
    words = re.sub(r"[^A-Za-z0-9_.-]+", "-", base.split("@")[0].rpartition("/")[2])
    return Recipe(archive=packed, tag=f"{packed.sha256[:20]}-{words}"[:_LONGEST_TAG].rstrip("-."))


def _instructions(text: str) -> list[str]:
    """The instructions of a Dockerfile, one a line, without comments; here-documents are not skipped."""
    text = re.sub(r"(?m)^[ \t]*#.*\n?", "", text.replace("\r\n", "\n"))
    return re.sub(r"\\[ \t]*\n", "", text).split("\n")


def _last_base(instructions: list[str]) -> str:
    """What the last stage is made from, through the stages before it."""
    arguments: dict[str, str] = {}
    stages: dict[str, str] = {}
    base = ""
    for line in instructions:
        if found := _ARG.match(line):
            arguments[found[1]] = found[2]
        elif found := _FROM.match(line):
            base = re.sub(r"\$\{?(\w+)\}?", lambda name: arguments.get(name[1], ""), found[1])
            base = stages.get(base.lower(), base)
            stages[str(found[2]).lower()] = base
    return base


def _read(path: str) -> str:
    full = os.path.expanduser(path)
    try:
        with open(full, encoding="utf-8-sig") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise _refusal("dockerfile", path, f"a Dockerfile that can be read ({why})") from error


def _check_secrets(field: str, text: str) -> None:
    if form := secret_type(text):
        allowed = f"text without a credential ({form}): everyone who can pull the image could read it"
        fix = "fetch what needs it beforehand, or give it to the job: secrets={'NAME': 'secret://...'}"
        raise invalid(field, HIDDEN, allowed, fix, what="the image cannot be built")


def _check_copies(instructions: list[str], seen: Survey) -> None:
    """Refuse to copy files that all stay behind: the build would fail after minutes."""
    for one in instructions:
        found = _COPY.fullmatch(one.strip())
        if found is None or "--from" in found[1]:
            continue
        for source in found[2].split()[:-1]:
            path = posixpath.normpath(source).lstrip("/")
            if "://" in source or any(_is_in(file.path, path) for file in seen.files):
                continue
            for behind in (one for one in seen.behind if "dockerignore: " not in one.reason):
                if behind.holds(path) or _is_in(behind.path.rstrip("/"), path):
                    allowed = f"files that are uploaded: COPY {source} matches none ({behind.reason})"
                    fix = f"put !/{behind.path} into .gputrainignore"
                    raise invalid("dockerfile", one, allowed, fix, what="the image cannot be built")


def _is_in(path: str, pattern: str) -> bool:
    return pattern == "." or fnmatchcase(path, pattern) or path.startswith(f"{pattern}/")


def _folder(image: Image) -> str:
    folder = os.path.abspath(os.path.expanduser(image.context or "."))
    if not os.path.isdir(folder):
        raise _refusal("context", folder, "a folder that exists")
    return folder


def _refusal(field: str, value: str, allowed: str) -> SpecError:
    fix = f"check the path; it starts at {os.getcwd()}"
    return invalid(field, value, allowed, fix, what="the image cannot be built")
