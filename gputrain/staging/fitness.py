"""What of a folder may not travel: too much of it, and what looks like a credential."""

from __future__ import annotations

from collections.abc import Sequence

from gputrain.secrets import form_of
from gputrain.staging.ignore import OWN_FILE
from gputrain.staging.survey import Survey, Travelling, biggest, reading, refuse, size_text

MAX_BYTES = 512 * 1024**2
"""What travels with a job is code; data and weights belong in a bucket."""

MAX_SEARCHED = 64 * 1024
"""Bytes of a file that may be one of keys; larger ones are code or data."""
_NAMED = 10


def check(seen: Survey) -> Survey:
    """The same, once it is known that it may travel; the small files of it are read.

    Raises:
        SpecError: it is too large (the ten biggest files are named), a small file looks like a credential, or
            cannot be read.
    """
    check_size(seen, MAX_BYTES)
    found = []
    for one in (one for one in seen.files if one.size <= MAX_SEARCHED and not one.is_asked_for):
        with reading(seen.folder), open(one.full, "rb") as file:
            form = credential_in(one, file.read())
        if form:
            found.append((one.path, form))
    refuse_credentials(seen.folder, found)
    return seen


def credential_in(file: Travelling, content: bytes) -> str:
    """What kind of credential a small text holds that nobody said is to travel; empty where it holds none."""
    if file.is_asked_for or len(content) > MAX_SEARCHED or b"\0" in content:
        return ""
    return form_of(content.decode("utf-8", "replace"))


def refuse_credentials(root: str, found: Sequence[tuple[str, str]]) -> None:
    """Raise SpecError where files, each with the kind of credential in it, were found."""
    if not found:
        return
    named = ", ".join(f"{path} ({form})" for path, form in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    first = found[0][0]
    refuse(
        root,
        f"what looks like a credential is in {named}{more}; everybody who may read the bucket could read it",
        f"list {first} in {OWN_FILE} and give it by reference, secrets={{'NAME': 'secret://projects/P/secrets/"
        f"S/versions/V'}}; where it is none, !{first} in {OWN_FILE} takes it along",
    )


def check_size(seen: Survey, max_bytes: int) -> None:
    """Raise SpecError where there is more of it than so many bytes."""
    if seen.size > max_bytes:
        refuse(
            seen.folder,
            f"it holds {size_text(seen.size)}, more than {size_text(max_bytes)}; the biggest files: "
            f"{biggest(seen.files, _NAMED)}",
            f"list what is not code in {OWN_FILE}, and read data from a bucket",
        )
