"""What `docker build` says of a Dockerfile and its context, as far as reading tells; nothing is run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_INSTRUCTIONS = frozenset(
    """ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL
    USER VOLUME WORKDIR""".split()  # noqa: SIM905  # as docker lists them
)


def read_by_docker(args: Sequence[str], files: Mapping[str, str]) -> tuple[list[str], str]:
    """What a build of a Dockerfile writes, and why it fails."""
    path = option(args, "-f", "--file") or "Dockerfile"
    text = files.get(path)
    if text is None:
        return [], f"failed to read dockerfile: open {path}: no such file or directory"
    steps = [line.strip() for line in re.sub(r"\\\n", " ", text).splitlines()]
    steps = [line for line in steps if line and not line.startswith("#")]
    if not steps or not steps[0].upper().startswith(("FROM ", "ARG ")):
        return [], "no build stage in current context"
    told = []
    for number, line in enumerate(steps, start=1):
        told.append(f"Step {number}/{len(steps)} : {line}")
        word, _, rest = line.partition(" ")
        if word.upper() not in _INSTRUCTIONS:
            return told, f"dockerfile parse error line {number}: unknown instruction: {word}"
        if word.upper() in ("COPY", "ADD") and "--from" not in rest:
            sources = [one for one in rest.split()[:-1] if not one.startswith("--")]
            lost = [one for one in sources if not _is_in(one, files)]
            if lost and "://" not in lost[0]:
                return told, f"{word} failed: file not found in build context: {lost[0]}"
    return [*told, "Successfully built"], ""


def _is_in(path: str, files: Mapping[str, str]) -> bool:
    plain = path.removeprefix("./").rstrip("/")
    return plain in ("", ".", "*") or any(name == plain or name.startswith(f"{plain}/") for name in files)


def option(args: Sequence[str], *names: str) -> str:
    for at, word in enumerate(args):
        name, _, value = word.partition("=")
        if name in names:
            return value or (args[at + 1] if at + 1 < len(args) else "")
    return ""
