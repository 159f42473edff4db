"""`gputrain.ddp` travels into images it does not choose: old syntax, standard library, torch late."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import gputrain.ddp
from tests.each import each

ROOM = Path(gputrain.ddp.__file__).parent
MODULES = sorted(path.stem for path in ROOM.glob("*.py"))


@each("module", MODULES)
def test_at_the_top_only_the_standard_library_and_the_contract_are_imported(module: str) -> None:
    for node in ast.parse((ROOM / f"{module}.py").read_text()).body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            ours = name.startswith(("gputrain.ddp.", "gputrain.entrypoint.contract"))
            assert ours or name.split(".")[0] in sys.stdlib_module_names, name


def test_importing_it_works_without_site_packages_and_loads_no_torch() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import gputrain.ddp; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code, str(ROOM.parents[1])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
