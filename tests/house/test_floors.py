"""The house is built in floors: imports run down only, and rooms on one floor do not know each other."""

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gputrain"
EMULATOR = ROOT / "emulator" / "gputrain_emulator"

FLOORS = (
    ("terminal", "interrupts"),
    ("errors", "secrets", "tables", "threads", "times", "spans", "entrypoint"),
    ("fields",),
    ("arguments", "catalog", "lifecycle", "retry", "ddp", "keeper"),
    ("spec", "gcp", "causes"),
    ("quota",),
    ("planning", "staging"),
    ("preflight", "refresh", "images"),
    ("records",),
    ("backends.values",),
    ("backends.base",),
    ("backends.results",),
    ("backends.google", "backends.limits", "backends.status", "backends.tails", "backends.abilities"),
    ("backends.local", "backends.vertex", "backends.compute"),
    ("backends",),
    ("progress",),
    ("metrics",),
    ("gauges",),
    ("view",),
    ("job",),
    ("experiments",),
    ("trainer",),
    ("",),
    ("cli", "emulator"),
    ("__main__",),
)
"""From the ground up. A floor's rooms may import any room below it."""

OUTSIDE = {
    "errors": {"attrs"},
    "tables": {"attrs", "rich"},
    "experiments": {"attrs", "pandas", "rich"},
    "spans": {"opentelemetry"},
    "entrypoint": {"torch"},
    "ddp": {"torch", "numpy"},
    "keeper": set(),
    "retry": {"attrs", "tenacity"},
    "spec": {"attrs", "yaml"},
    "quota": {"attrs", "google", "requests"},
    "cli": {"attrs", "rich", "tomli"},
    "emulator": {"gputrain_emulator"},
    "preflight": {"attrs", "rich"},
    "gcp": {"attrs", "google", "requests", "urllib3", "grpc", "proto"},
    "view": {"attrs", "rich"},
    "backends.local": {"attrs", "packaging"},
}
"""What a room may import beyond the standard library; ``attrs`` alone unless said."""


def modules(package=PACKAGE):
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def room_of(module):
    """The room a module lies in: the longest name of a floor that begins it."""
    inner = module.removeprefix("gputrain").removeprefix(".")
    rooms = [room for floor in FLOORS for room in floor if inner == room or inner.startswith(f"{room}.")]
    assert rooms or inner == "", f"{module} lies on no floor: add its room to FLOORS"
    return max(rooms, key=len, default="")


def level(room):
    return next(number for number, floor in enumerate(FLOORS) if room in floor)


def imports(module, path, *, for_types=True):
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    tree = ast.parse(path.read_text())
    if not for_types:
        tree = DropTypeChecking().visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            if base == "gputrain":  # __version__ lies on no floor: everybody may know it
                names = [alias.name for alias in node.names if alias.name != "__version__"]
                yield from ((f"gputrain.{name}", node.lineno) for name in names)
            else:
                yield base, node.lineno


class DropTypeChecking(ast.NodeTransformer):
    """Leaves out what only type checkers read."""

    def visit_If(self, node):
        return None if ast.unparse(node.test).endswith("TYPE_CHECKING") else self.generic_visit(node)


OURS = [pytest.param(module, path, id=module) for module, path in modules()]


@pytest.mark.parametrize(("module", "path"), OURS)
def test_imports_run_down_only(module, path):
    room = room_of(module)
    for name, line in imports(module, path):
        if name != "gputrain" and not name.startswith("gputrain."):
            continue
        target = room_of(name) if name != "gputrain" else ""
        if target == room:
            continue
        assert level(target) < level(room), (
            f"{path}:{line}: {room or 'the face'} imports {target or 'the face'}"
        )


@pytest.mark.parametrize(("module", "path"), OURS)
def test_a_room_imports_from_outside_only_what_its_floor_allows(module, path):
    room = room_of(module)
    allowed = OUTSIDE.get(
        room, {"attrs"} | ({"google", "requests", "grpc", "proto"} if "backends." in room else set())
    )
    for name, line in imports(module, path, for_types=False):
        top = name.partition(".")[0]
        if top != "gputrain" and top not in sys.stdlib_module_names:
            assert top in allowed, f"{path}:{line}: {room or 'the face'} imports {top}"


STORAGE = {"gcp/buckets.py", "gcp/objects.py", "gcp/uploads.py", "keeper/cloud.py", "keeper/store.py"}
"""Who speaks of buckets and objects to Cloud Storage: here, and where a job runs."""


def test_nobody_else_speaks_storage_by_hand():
    words = re.compile(r"ifGenerationMatch|uploadType|/o[/?]|storage/v1/b\b")
    speaks = {str(path.relative_to(PACKAGE)) for _, path in modules() if words.search(path.read_text())}
    assert speaks == STORAGE


def test_the_house_is_drawn_as_it_is_built():
    page = (ROOT / "docs" / "design" / "house.md").read_text()
    rows = re.findall(r"^\| (?!apart)[\w ]+ \| ([^|]+) \|", page, re.MULTILINE)
    inner = {room.removeprefix("backends."): room for floor in FLOORS for room in floor} | {"gputrain": ""}
    told = [inner[name] for row in rows for name in re.findall(r"`(?:backends/)?(\w+)/?`", row)]
    assert sorted(told) == sorted(room for floor in FLOORS for room in floor)
    assert told == sorted(told, key=level, reverse=True)


def test_the_emulator_stands_apart():
    for module, path in modules(EMULATOR):
        for name, line in imports(module, path):
            assert name.partition(".")[0] != "gputrain", f"{path}:{line} imports {name}"


FOLDERS = ("tests", "emulator", "examples", "benchmarks", "docs")
NEIGHBOURS = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", NEIGHBOURS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_emulator_is_imported_by_its_own_name(path):
    for name, line in imports(path.stem, path):
        assert not name.startswith("gputrain.emulator"), f"{path}:{line}: import gputrain_emulator"
