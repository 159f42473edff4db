"""A folder of a user's whose files have the names of Python's own modules."""

import sys

MINE = "raise SystemExit('a module of the user was run: ' + __name__)\n"


def cast(folder):
    """Put one beside the script for every module of the standard library that is a file."""
    for name in sys.stdlib_module_names - {"__future__"}:  # a text may only begin by importing it
        (folder / f"{name}.py").write_text(MINE)
