"""What an image is made of, as bytes with a name: the same content has the same name everywhere."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Callable

import attrs

from gputrain.errors import SpecError
from gputrain.fields import refused
from gputrain.images.dockerfile import stages
from gputrain.secrets import HIDDEN, form_of
from gputrain.spec.image import Image
from gputrain.staging import archive, dockerignore
from gputrain.staging.archive import Archive
from gputrain.staging.dockerignore import DockerIgnore
from gputrain.staging.survey import reading

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


@attrs.frozen(kw_only=True)
class Recipe:
    """A Dockerfile and all that it reads, packed; nothing is built."""

    archive: Archive
    tag: str
    """By its content, and with the words of its base: a name tells which CUDA an image has."""


def recipe(image: Image, pin: Callable[[str], str] = str) -> Recipe:
    """The recipe of an image.

    Args:
        pin: makes a base's name one by its digest, where that is known.

    Raises:
        SpecError: the Dockerfile is not there, it or a requirement holds a credential, or something in its
            context cannot travel.
    """
    if image.dockerfile is None:
        base = pin(str(image.base))
        text = _ON_A_BASE.format(base=base) if image.requirements else f"FROM {base}\n"
        listed = "".join(f"{one}\n" for one in image.requirements)
        _check_secrets("requirements", listed)
        with tempfile.TemporaryDirectory() as empty:
            packed = archive.pack(empty, made={DOCKERFILE: text.encode(), _REQUIREMENTS: listed.encode()})
        return _named(packed, packed.sha256, str(image.base))
    text = _read(image.dockerfile)
    _check_secrets("dockerfile", text)
    holding = _held_back(image.dockerfile, folder := _folder(image))
    packed = archive.pack(folder, made={DOCKERFILE: text.encode(), **holding.sent}, holding=holding)
    bases = stages(text)
    today = {one: pin(one) for one in dict.fromkeys(bases)}
    told = [packed.sha256, *(one for base, one in today.items() if one != base)]
    name = told[0] if len(told) == 1 else hashlib.sha256("\n".join(told).encode()).hexdigest()
    return _named(packed, name, bases[-1] if bases else "")


def _named(packed: Archive, name: str, base: str) -> Recipe:
    words = re.sub(r"[^A-Za-z0-9_.-]+", "-", base.split("@")[0].rpartition("/")[2])
    return Recipe(archive=packed, tag=f"{name[:20]}-{words}"[:_LONGEST_TAG].rstrip("-."))


def _read(path: str) -> str:
    full = os.path.expanduser(path)
    try:
        if os.path.exists(full) and not os.path.isfile(full):  # to read a pipe would wait for whoever writes
            raise _refusal("dockerfile", path, "a Dockerfile that can be read (it is no file)")
        with open(full, encoding="utf-8-sig") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise _refusal("dockerfile", path, f"a Dockerfile that can be read ({why})") from error


def _check_secrets(field: str, text: str) -> None:
    if form := form_of(text):
        allowed = f"text without a credential ({form}): whoever may pull the image could read it"
        fix = "fetch what needs it beforehand, or give it to the job: secrets={'NAME': 'secret://...'}"
        raise refused(field, HIDDEN, allowed, fix, what="the image cannot be built")


def _held_back(dockerfile: str, folder: str) -> DockerIgnore:
    try:
        with reading(folder):
            return dockerignore.read(dockerfile, folder)
    except SpecError:
        raise
    except ValueError as error:  # docker builds nothing with such a line, and what it meant might be sent
        raise _refusal("context", folder, f"a folder whose ignore file can be read ({error})") from error


def _folder(image: Image) -> str:
    folder = os.path.abspath(os.path.expanduser(image.context or "."))
    if not os.path.isdir(folder):
        raise _refusal("context", folder, "a folder that exists")
    return folder


def _refusal(field: str, value: str, allowed: str) -> SpecError:
    fix = f"check the path; it starts at {os.getcwd()}"
    return refused(field, value, allowed, fix, what="the image cannot be built")
