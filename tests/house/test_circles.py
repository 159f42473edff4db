"""No file imports, not even inside a function, a file that needs it."""

from graphlib import TopologicalSorter

from tests.house.source import imports


def needs():
    """Module -> those it imports but for types, without the ``__init__`` of its own package."""
    found = {module: {name for name, _ in ones} for module, ones in imports(for_types=False).items()}
    return {
        module: {one for one in names if one in found and not f"{module}.".startswith(f"{one}.")}
        for module, names in found.items()
    }


def test_there_are_no_circles():
    TopologicalSorter(needs()).prepare()
