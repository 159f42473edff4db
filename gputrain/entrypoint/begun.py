"""How Pythons are begun that stand in a folder of the user's before the user's own program runs.

``python -c`` and ``python -m`` look there before the standard library: a ``json.py`` that the user's script
never sees would be run in place of Python's own. ``-P`` keeps them from it only since 3.11.
"""

from __future__ import annotations

ASIDE = "import sys; del sys.path[: sys.path[0] == '']; "
"""The first words of a text for ``-c``; ``sys`` is built in."""

PROGRAM = "-c", ASIDE + "import runpy; runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
"""Python's words that stand for ``-m``; the module's name follows."""
