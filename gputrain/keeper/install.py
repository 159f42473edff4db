"""Packages that a boot image lacks, of its own distribution; they come through a way out of the VM."""

from __future__ import annotations

import os
import re
import shutil

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Optional, Tuple

    Call = Callable[..., Tuple[int, str]]
    """As `Keeper.call`: command, environment, standard input."""

_NAME = re.compile(r"[a-z0-9][a-z0-9.+-]*[a-z0-9](?:\+\+)?\Z")
"""As Debian names packages: a ``-`` or ``+`` at its end is an order to apt-get, a ``-`` before it a flag."""

LIMIT_S = 600
_APT = ("timeout", "-s", "KILL", str(LIMIT_S), "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300")
"""A boot image that updates itself holds the lock meanwhile."""


def install(call: Call, *names: str) -> Optional[str]:
    """Install packages; None, or what went wrong. Raises as ``call``."""
    wrong = [name for name in names if not _NAME.match(name)]
    if wrong:
        return "{!r} is no package's name".format(wrong[0])
    if shutil.which("apt-get") is None:
        return "this boot image has no apt-get to install {} with".format(" ".join(names))
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "-y", "--no-install-recommends", *names]):
        code, said = call([*_APT, *words], env)
        if code and words != ["update"]:  # what is known already may be enough
            return said[-1500:] or f"apt-get {words[0]} ended with {code}"
    return None
