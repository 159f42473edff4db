"""No file needs, however late, a file that needs it: circles hide where imports stand in functions."""

import ast

from tests.house.test_floors import DropTypeChecking, modules

KNOWN = dict(modules())


def needs(module, path):
    """The modules that one imports anywhere, but for types. A package's own face is not among them."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(DropTypeChecking().visit(ast.parse(path.read_text()))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, node.module] if node.module else above)
            yield from (name if (name := f"{base}.{alias.name}") in KNOWN else base for alias in node.names)


def graph():
    """Module -> those it needs; a face needs what it shows, and nobody needs the face for it."""
    found = {module: set(needs(module, path)) & set(KNOWN) - {module} for module, path in KNOWN.items()}
    return {
        module: {one for one in named if not module.startswith(f"{one}.")} for module, named in found.items()
    }


def circles(wanted):
    """The strongly connected parts of more than one, by Tarjan."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for following in wanted[node]:
            if following not in number:
                visit(following)
                low[node] = min(low[node], low[following])
            elif following in stack:
                low[node] = min(low[node], number[following])
        if low[node] == number[node]:
            part = [stack.pop()]
            while part[-1] != node:
                part.append(stack.pop())
            if len(part) > 1:
                found.append(sorted(part))

    for node in wanted:
        if node not in number:
            visit(node)
    return found


def test_a_circle_is_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_there_are_no_circles():
    assert circles(graph()) == []
