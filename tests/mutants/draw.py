"""One-line mutants of a file that mean something else than it does; cosmic-ray makes them."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator

import parso
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names


class _Meaning(ast.NodeTransformer):
    """Leaves out what no test can see: annotations, docstrings, what only type checkers read."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        node.annotation = ast.Constant(None)
        return node

    def visit_arguments(self, node: ast.arguments) -> ast.arguments:
        self.generic_visit(node)  # whether an argument is given by its name, type checkers see as well
        before = [*node.posonlyargs, *node.args]
        missing: list[ast.expr | None] = [None] * (len(before) - len(node.defaults))
        defaults = [*missing, *node.defaults, *node.kw_defaults]
        node.args = [*before, *node.kwonlyargs]
        node.defaults = [one or ast.Constant("none") for one in defaults]
        node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = []  # whether a value is frozen or takes keywords alone, type checkers see
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        same = {ast.Is: ast.Eq, ast.IsNot: ast.NotEq}  # of enums and None, which is all that `is` is for here
        node.ops = [same.get(type(one), type(one))() for one in node.ops]
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if "TYPE_CHECKING" in ast.dump(node.test) else self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)


def mutants(source: str, draw: random.Random) -> Iterator[str]:
    """One-line mutants of a file, of all kinds, in an order that is drawn; none that means the same."""
    meant = _meaning(source)
    nodes = list(_nodes(source))
    places = []
    for name in operator_names():
        operator = get_operator(name)
        if operator.arguments():  # those that are told what to change
            continue
        count = sum(1 for node in nodes for _ in operator().mutation_positions(node))
        places += [(name, occurrence) for occurrence in range(count)]
    draw.shuffle(places)
    for name, occurrence in places:
        try:
            mutant = mutate_code(source, get_operator(name)(), occurrence)
            if mutant is not None and _meaning(mutant) != meant:
                yield mutant
        except (AttributeError, SyntaxError):  # noqa: PERF203  # cosmic-ray stumbles over `except a.Error`
            continue


def _nodes(source: str) -> Iterator[object]:
    stack = [parso.parse(source)]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(getattr(node, "children", ()))


def _meaning(source: str) -> str:
    return ast.dump(_Meaning().visit(ast.parse(source)))


def scopes(source: str, line: int) -> list[str]:
    """The names of what a line stands in, the innermost first, as `co_qualname` has them."""
    found: list[str] = []

    def look(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = prefix
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
                if first <= line <= (child.end_lineno or 0):
                    found.insert(0, prefix + child.name)
                inner += f"{child.name}." if isinstance(child, ast.ClassDef) else f"{child.name}.<locals>."
            look(child, inner)

    look(ast.parse(source), "")
    return found


def defined(source: str, line: int) -> str:
    """The name of what a line defines as it is imported: a value, or whose decorator or default it is."""
    found = ""
    stack: list[ast.stmt] = list(ast.parse(source).body)
    while stack:
        node = stack.pop()
        heads = [one.lineno for one in getattr(node, "decorator_list", ())]
        if not min([node.lineno, *heads]) <= line <= (node.end_lineno or 0):
            continue
        if isinstance(node, ast.FunctionDef):
            return node.name if line < node.body[0].lineno else ""
        if isinstance(node, ast.ClassDef):
            found = node.name
            stack.extend(node.body)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            return next((one.id for one in targets if isinstance(one, ast.Name)), found)
    return found
