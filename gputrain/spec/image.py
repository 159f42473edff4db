"""`Image`: a container image, by what it is built from."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from gputrain.display.table import TableDisplay
from gputrain.fields import Errors, field, matching, one_of, path, read_fields, texts, words

if TYPE_CHECKING:
    from gputrain.spec.types import FilePath


class Builder(enum.Enum):
    """Who builds images."""

    CLOUD_BUILD = "cloud-build"
    DOCKER = "docker"
    PODMAN = "podman"


def read_requirements(value: Any) -> tuple[str, ...]:
    """A list of pip requirements: packages, URLs, paths; no options, and no files of requirements.

    Given the name of a file, pip would ask the index for a package of that name and run it.
    """
    found = texts(value)
    if not found:
        return found
    from packaging.requirements import InvalidRequirement, Requirement  # 20 ms

    for one in found:
        if one.lstrip().startswith("-") or not one.isprintable():
            raise ValueError(f"{one!r} is not a requirement")
        if one.strip().endswith(".txt"):
            raise ValueError(f"{one!r} is a file; list packages, or give requirements='requirements.txt'")
        try:
            if not re.search(r"[/\\]|\.(?:whl|zip|tar\.gz)$", one):  # a URL, a path, an archive
                Requirement(one)
        except InvalidRequirement:
            raise ValueError(f"{one!r} is not a requirement") from None
    return found


_WORD = r"[A-Za-z0-9][\w.+~-]*"
_PART = r"[a-z0-9][a-z0-9_.-]*"
REFERENCE = re.compile(
    rf"(?:{_WORD}(?:[.][A-Za-z0-9-]+|:[0-9]+)(?:/{_WORD})*/{_WORD}|{_PART}(?:/{_PART})*)"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[A-Za-z][A-Za-z0-9]*:[0-9A-Fa-f]{1,128})?",
    re.ASCII,
)
"""An image's name: registry, path, tag, digest; without a registry the path is lower-case.

Source: the grammar of github.com/distribution/reference, by general knowledge.
"""


@attrs.frozen(kw_only=True, init=False)
class Image(TableDisplay):
    """A container image to build: built once, pushed, and run by its digest.

    The image is named by its content, so nothing is built while nothing has changed. Give a base and packages
    on top, or a Dockerfile and the folder that it reads.

    Args:
        base: the image to start from; it has Python and PyTorch.
        requirements: pip requirements to install into it; its PyTorch stays as it is.
        dockerfile: path of a Dockerfile, instead of both.
        context: the folder that the Dockerfile reads; by default the Dockerfile's own. Ignore files apply as
            they do to code, and credentials are refused.
        builder: ``cloud-build``, or this machine's ``docker`` or ``podman``.

    Raises:
        SpecError: with all faults.

    >>> Image(base="pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime", requirements=["einops==0.8.0"]).title
    'pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime with 1 package'
    >>> Image(dockerfile="docker/Dockerfile").context
    'docker'
    """

    base: str | None = field(
        matching(REFERENCE), "a container image", "base='pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime'"
    )
    requirements: tuple[str, ...] = field(
        read_requirements, "a list of pip requirements", "requirements=['einops==0.8.0']", is_needed=True
    )
    dockerfile: str | None = field(path, "the path of a Dockerfile", "dockerfile='Dockerfile'")
    context: str | None = field(path, "a folder", "context='.'")
    builder: Builder = field(one_of(Builder), words(Builder), "builder='cloud-build'", is_needed=True)

    def __init__(
        self,
        *,
        base: str | None = None,
        requirements: Sequence[str] = (),
        dockerfile: FilePath | None = None,
        context: FilePath | None = None,
        builder: Builder | Literal["cloud-build", "docker", "podman"] = Builder.CLOUD_BUILD,
    ) -> None:
        errors = Errors("the image")
        given = {
            "base": base, "requirements": requirements, "dockerfile": dockerfile, "context": context,
            "builder": builder,
        }  # fmt: skip
        found = read_fields(Image, given, errors)
        if errors.is_clean("base", "dockerfile"):
            one = (base is None) != (dockerfile is None)
            errors.check(one, "base", base, "a base or a Dockerfile, one of them", "dockerfile='Dockerfile'")
        if dockerfile is not None and found["requirements"]:
            problem, fix = "a Dockerfile installs its own", "RUN pip install ... in the Dockerfile"
            errors.add("requirements", requirements, "", fix, problem=problem)
        if context is not None and dockerfile is None:
            errors.add(
                "context", context, "", "dockerfile='Dockerfile'", problem="only a Dockerfile reads one"
            )
        errors.raise_if_any()
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
        """Its arguments as JSON types; ``Image(**fields)`` reads them back."""
        plain = {**attrs.asdict(self), "requirements": list(self.requirements), "builder": self.builder.value}
        return {name: value for name, value in plain.items() if value}


def read_image(value: Any) -> str | Image:
    """A spec's ``image``: a name, an `Image` or its arguments, or a Dockerfile's path.

    A name has no capital letter before its tag, so ``Dockerfile`` is a path, as is ``gpu.Dockerfile``.
    """
    if isinstance(value, Image):
        return value
    if isinstance(value, dict):
        return Image(**value)
    is_file = isinstance(value, str) and _DOCKERFILE.fullmatch(os.path.basename(value))
    if is_file or isinstance(value, os.PathLike):
        return Image(dockerfile=value)
    return str(matching(REFERENCE)(value))


_DOCKERFILE = re.compile(r"(?:Dockerfile|Containerfile)[^:@]*|[^:@]*\.(?:Dockerfile|Containerfile)")
