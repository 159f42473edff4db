"""The product's files, each read and parsed once for all checks of this folder."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gputrain"
EMULATOR = ROOT / "emulator" / "gputrain_emulator"


@cache
def modules(package=PACKAGE):
    """Dotted name -> (path, syntax tree) of every module of a package."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path, ast.parse(path.read_text())
    return found


@cache
def imports(package=PACKAGE, *, for_types=True):
    """Module -> [(what it imports, line)], in functions too; ``from a import b`` is a.b if that is a module.

    for_types: also count what stands under ``if TYPE_CHECKING``.
    """
    known = modules(package)
    return {name: [*_imported(name, *known[name], known, for_types)] for name in known}


def _imported(module, path, tree, known, for_types):
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in _walk(tree, for_types):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, node.module] if node.module else above)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield (name if name in known or base == package_root(package) else base), node.lineno


def package_root(package):
    return package.partition(".")[0]


def _walk(node, for_types):
    """Every node below one, without the branches that only type checkers read, unless wanted."""
    for child in ast.iter_child_nodes(node):
        if for_types or not (isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")):
            yield child
            yield from _walk(child, for_types)
