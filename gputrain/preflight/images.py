"""The container image of a job: whether it is there, and fit for the GPU and the host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gputrain.catalog import Shape, image_faults
from gputrain.gcp import Access, MissingError
from gputrain.gcp.registry import ImageName, find_manifest, read_architectures
from gputrain.preflight.checks import Check, Finding
from gputrain.preflight.examine import PATIENCE, Question


def image(access: Access, name: str, shapes: Sequence[Shape]) -> tuple[Question, ...]:
    """Whether a container image can run on each of the shapes, and is in its registry.

    The CUDA release is read from the image's name, the CPU architectures from its manifest where it lists
    platforms. Only Google's registries are asked: no token of yours goes to another.
    """
    return (
        Question(subject=f"image {name}", ask=lambda: _fits(name, shapes)),
        Question(subject=f"image {name}", ask=lambda: _is_there(access, name, shapes)),
    )


def _fits(name: str, shapes: Sequence[Shape]) -> Iterator[Check]:
    faults = dict.fromkeys(fault for shape in shapes for fault in image_faults(name, shape))
    for fault in faults:
        finding = Finding.FAULT if fault.is_certain else Finding.UNKNOWN
        yield Check(
            subject=f"image {name}", finding=finding, why=f"{fault.what}: {fault.why}", fix=_lower(fault.fix)
        )
    if shapes and not faults:
        kinds = ", ".join(dict.fromkeys(shape.gpu.kind for shape in shapes))
        why = f"nothing in its name speaks against {kinds}"
        yield Check(subject=f"image {name}", finding=Finding.OK, why=why)


def _is_there(access: Access, name: str, shapes: Sequence[Shape]) -> Iterator[Check]:
    subject = f"image {name} in its registry"
    parsed = ImageName.parse(name)
    if parsed is None:
        why = "not asked for: it is in no registry of Google's, and no token of yours goes to another"
        yield Check(subject=subject, finding=Finding.UNKNOWN, why=why)
        return
    try:
        found = find_manifest(access, parsed, policy=PATIENCE)
    except MissingError:
        fix = f"gcloud artifacts docker images list {parsed.host}/{parsed.path} --include-tags"
        yield Check(subject=subject, finding=Finding.FAULT, why=f"{parsed.host} has no such image", fix=fix)
        return
    if found is None:
        yield Check(subject=subject, finding=Finding.UNKNOWN, why="these endpoints have no registry")
        return
    yield Check(subject=subject, finding=Finding.OK, why=found.digest)
    if found.has_platforms:
        yield from _built_for(name, read_architectures(access, parsed), shapes)


def _built_for(name: str, built: frozenset[str], shapes: Sequence[Shape]) -> Iterator[Check]:
    wanted = dict.fromkeys(shape.machine.cpu_architecture for shape in shapes)
    for host in (one for one in wanted if built and one not in built):
        platform = f"linux/{host.replace('x86_64', 'amd64')}"
        yield Check(
            subject=f"image {name}",
            finding=Finding.FAULT,
            why=f"it is built for {', '.join(sorted(built))}, and the host's CPU is {host}",
            fix=f"docker buildx build --platform {platform} --push --tag {name} .",
        )


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
