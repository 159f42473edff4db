"""What a shell completes: the scripts for three shells ask ``gputrain completion words``, which knows."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterable, Sequence

from gputrain.cli.parser import SHELLS, parsers
from gputrain.cli.screen import Exit

_SCRIPTS = {
    "bash": r"""_gputrain() {
  local IFS=$'\n'
  COMPREPLY=($(gputrain completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _gputrain gputrain
""",
    "zsh": r"""#compdef gputrain
_gputrain() {
  local -a found
  found=("${(@f)$(gputrain completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  [[ -n $found ]] && compadd -a found || _files
}
compdef _gputrain gputrain
""",
    "fish": r"""function __gputrain_words
  set -l said (commandline -opc) (commandline -ct)
  gputrain completion words -- $said[2..-1] 2>/dev/null
end
complete -c gputrain -a '(__gputrain_words)'
""",
}
_VALUES = {
    "--provisioning-model": ("standard", "spot", "flex-start", "reservation-bound"),
    "--launcher": ("torchrun-env", "tensorflow", "none"),
    "--state": ("queued", "provisioning", "running", "interrupted", "stopping", "succeeded", "failed",
                "cancelled", "expired"),
}  # fmt: skip


def complete(options: argparse.Namespace) -> Exit:
    """Write the script of a shell, or what may stand at the end of a line that is being typed."""
    if options.shell == "words":
        sys.stdout.writelines(f"{word}\n" for word in words(options.rest or [""]))
    else:
        sys.stdout.write(_SCRIPTS[options.shell])
    return Exit.OK


def words(typed: Sequence[str]) -> list[str]:
    """What the last of the words may become; nothing where it is a file's name, or the script's own."""
    *before, begun = typed
    _, commands = parsers()
    if not before:
        return [name for name in commands if name.startswith(begun)]
    parser = commands.get(before[0])
    if parser is None or "--" in before:
        return []
    flag = parser._option_string_actions.get(before[-1])
    if flag is not None and flag.nargs is None:
        found = _values(flag.option_strings[0])
    elif begun.startswith("-"):
        found = [one for one in parser._option_string_actions if one.startswith("--")]
    elif before[0] == "completion":
        found = SHELLS
    else:
        takes_job = any(one.dest == "job" for one in parser._get_positional_actions())
        found = names() if takes_job else ()
    return [one for one in found if one.startswith(begun)]


def _values(flag: str) -> Sequence[str]:
    if flag != "--backend":
        return _VALUES.get(flag, ())
    from gputrain.backends import registry

    return registry.names()


_MOST = 200


def _home() -> str:
    home = os.environ.get("GPUTRAIN_HOME")
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return os.path.abspath(os.path.expanduser(home or os.path.join(state, "gputrain")))


def names() -> list[str]:
    """The newest first: of this machine's jobs, and of those that commands have listed or made."""
    found: dict[str, None] = {}
    with (
        contextlib.suppress(OSError, ValueError),
        open(os.path.join(_home(), "seen"), encoding="utf-8") as file,
    ):
        found.update(dict.fromkeys(file.read().split()))
    with contextlib.suppress(OSError):
        entries = [one for one in os.scandir(os.path.join(_home(), "jobs")) if one.name[0].isalpha()]
        newest = sorted(entries, key=lambda one: one.stat().st_mtime, reverse=True)
        found = {**dict.fromkeys(one.name for one in newest[:_MOST]), **found}
    return list(found)


def remember(jobs: Iterable[str]) -> None:
    """Keep these names; where nothing can be written, nothing is completed, and nobody is told."""
    with contextlib.suppress(OSError, ValueError):  # a file that is no text, too: the job is made
        os.makedirs(_home(), mode=0o700, exist_ok=True)
        path = os.path.join(_home(), "seen")
        try:
            with open(path, encoding="utf-8") as file:
                before = file.read().split()
        except FileNotFoundError:
            before = []
        kept = list(dict.fromkeys([*jobs, *before]))[:_MOST]
        with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
            file.write("\n".join(kept))
        os.replace(file.name, path)
