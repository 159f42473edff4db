"""`Image`: a container image as what it is to be made of."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from gputrain.arguments import refusing
from gputrain.fields import FaultCollector, Field, matching, one_of, path, read, texts, words
from gputrain.tables import Shown

if TYPE_CHECKING:
    from gputrain.spec.typed import FilePath


class Builder(enum.Enum):
    """Who builds images."""

    CLOUD_BUILD = "cloud-build"
    DOCKER = "docker"
    PODMAN = "podman"


def read_requirements(value: Any) -> tuple[str, ...]:
    """A list of what pip may be asked for: packages by name and version, addresses, paths; no flags.

    A file of requirements is none of them: pip would ask the index for a package of that name, and run it.
    """
    found = texts(value)
    for one in found:
        if not one.strip() or one.lstrip().startswith("-") or not one.isprintable():
            raise ValueError(f"{one!r} is not a requirement")
        if one.strip().endswith(".txt"):
            raise ValueError(f"{one!r} is a file, and only packages can be listed here")
        if not (_ADDRESS.search(one) or _PACKAGE.fullmatch(one)):
            raise ValueError(f"{one!r} is not a requirement as pip reads them")
    return found


_ADDRESS = re.compile(r"[/\\]|\.(?:whl|zip|tar\.gz)$")
"""What pip takes besides packages by their names: an address, a path, an archive."""
_VERSION = r"\s*(?:===?|[<>!~]=|[<>])\s*[\w.*+!-]+\s*"
_PACKAGE = re.compile(
    r"\s*[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?\s*(?:\[[\w.,\s-]*\])?"
    rf"\s*\(?(?:{_VERSION}(?:,{_VERSION})*)?\)?\s*(?:;.*)?"
)
"""A name, what it is wanted with, versions, and where it is wanted. Source: PEP 508, by general knowledge."""
_WORD = r"[A-Za-z0-9][\w.+~-]*"
_PART = r"[a-z0-9][a-z0-9_.-]*"
REFERENCE = re.compile(
    rf"(?:{_WORD}(?:[.][A-Za-z0-9-]+|:[0-9]+)(?:/{_WORD})*/{_WORD}|{_PART}(?:/{_PART})*)"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*:[0-9A-Fa-f]{1,128})?",
    re.ASCII,
)
"""An image's name: a registry, a path, a tag, a digest; without a registry the path is in small letters.

Source: the grammar of github.com/distribution/reference, by general knowledge.
"""
_ROWS = {
    "base": Field(
        matching(REFERENCE), "a container image", "base='pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime'"
    ),
    "requirements": Field(
        read_requirements, "a list of pip requirements", "requirements=['einops==0.8.0']", True
    ),
    "dockerfile": Field(path, "the path of a Dockerfile", "dockerfile='Dockerfile'"),
    "context": Field(path, "a folder", "context='.'"),
    "builder": Field(one_of(Builder), words(Builder), "builder='cloud-build'", True),
}


@attrs.frozen(kw_only=True, init=False)
class Image(Shown):
    """A container image, by what it is made of: it is built once, pushed, and run by its digest.

    What goes in names it, so that nothing is built or sent while nothing has changed: a base and packages on
    top of it, or a Dockerfile with the folder that it reads.

    Args:
        base: the image to begin with, which has Python and PyTorch.
        requirements: pip requirements to install into it; its own PyTorch stays as it is.
        dockerfile: path of a Dockerfile instead of both.
        context: the folder that the Dockerfile reads; the Dockerfile's own unless said. What travels of it is
            what travels of code: ignore files hold back, and keys are refused.
        builder: ``cloud-build``, which needs nothing here, or this machine's ``docker`` or ``podman``.

    Raises:
        SpecError: with all faults.

    >>> Image(base="pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime", requirements=["einops==0.8.0"]).title
    'pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime with 1 package'
    >>> Image(dockerfile="docker/Dockerfile").context
    'docker'
    """

    base: str | None
    requirements: tuple[str, ...]
    dockerfile: str | None
    context: str | None
    builder: Builder

    @refusing(_ROWS)
    def __init__(
        self,
        *,
        base: str | None = None,
        requirements: Sequence[str] = (),
        dockerfile: FilePath | None = None,
        context: FilePath | None = None,
        builder: Builder | Literal["cloud-build", "docker", "podman"] = Builder.CLOUD_BUILD,
    ) -> None:
        faults = FaultCollector("the image")
        given = {
            "base": base, "requirements": requirements, "dockerfile": dockerfile, "context": context,
            "builder": builder,
        }  # fmt: skip
        found = read(_ROWS, given, faults)
        if faults.is_clean("base", "dockerfile"):
            one = (base is None) != (dockerfile is None)
            faults.check(one, "base", base, "a base or a Dockerfile, one of them", "dockerfile='Dockerfile'")
        if dockerfile is not None and found["requirements"]:
            fix = "let the Dockerfile install them: RUN pip install ..."
            faults.add("requirements", requirements, "those of a base; a Dockerfile has its own", fix)
        if context is not None and dockerfile is None:
            faults.add(
                "context", context, "what a Dockerfile reads", "dockerfile='Dockerfile', or leave it out"
            )
        faults.raise_if_any()
        if dockerfile is not None and context is None:
            found["context"] = os.path.dirname(found["dockerfile"]) or "."
        self.__attrs_init__(**found)

    @property
    def title(self) -> str:
        """A few words for it."""
        if self.base is None:
            return str(self.dockerfile)
        count = len(self.requirements)
        return f"{self.base} with {count} package{'' if count == 1 else 's'}" if count else self.base

    def to_dict(self) -> dict[str, Any]:
        """What it is made of, as JSON types; ``Image(**it)`` reads it back."""
        plain = {**attrs.asdict(self), "requirements": list(self.requirements), "builder": self.builder.value}
        return {name: value for name, value in plain.items() if value}


def read_image(value: Any) -> str | Image:
    """What a spec's ``image`` may be: a name, an `Image` or its parts, or a Dockerfile's path.

    A name has no capital letter before its tag, so ``Dockerfile`` is a path, as is ``gpu.Dockerfile``.
    """
    if isinstance(value, Image):
        return value
    if isinstance(value, dict):
        return Image(**value)
    is_file = isinstance(value, str) and _DOCKERFILE.fullmatch(os.path.basename(value))
    if is_file or isinstance(value, os.PathLike):
        return Image(dockerfile=value)
    return matching(REFERENCE)(value)


_DOCKERFILE = re.compile(r"(?:Dockerfile|Containerfile)[^:@]*|[^:@]*\.(?:Dockerfile|Containerfile)")
