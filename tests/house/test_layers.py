"""Imports run down only, and packages of one layer do not import each other."""

import sys
from graphlib import TopologicalSorter

from tests.house.source import EMULATOR, imports

LAYERS = (
    ("text", "times"),
    ("errors", "display", "display.table", "concurrency", "tracing", "runtime"),
    ("fields",),
    ("catalog", "lifecycle", "retry", "ddp", "entrypoint"),
    ("spec", "google", "causes"),
    ("quota",),
    ("planning", "code"),
    ("doctor", "catalog.refresh", "images"),
    ("jobstore",),
    ("backends.base",),
    ("backends.agent_reports",),
    ("backends.run_reports",),
    ("backends.google", "backends.limits"),
    ("backends.local", "backends.vertex", "backends.compute"),
    ("backends",),
    ("orchestration",),
    ("display.plot",),
    ("metrics",),
    ("display.live",),
    ("job",),
    ("experiments",),
    ("trainer",),
    ("",),
    ("cli", "emulator"),
    ("__main__",),
)
"""From the lowest up; a package may import any below its own layer. "" is the public face, `gputrain`."""

CLOUD = {"attrs", "google", "requests", "proto"}
OUTSIDE = {
    "errors": {"attrs"},
    "catalog": {"attrs", "tomli"},
    "display.table": {"attrs", "rich"},
    "display.plot": {"attrs", "matplotlib"},
    "display.live": {"attrs", "rich"},
    "metrics": {"attrs", "pandas"},
    "tracing": {"opentelemetry"},
    "runtime": {"torch"},
    "ddp": {"torch", "numpy"},
    "entrypoint": set(),
    "retry": {"attrs", "tenacity"},
    "spec": {"attrs", "packaging", "yaml"},
    "quota": {"attrs", "google", "requests"},
    "cli": {"attrs", "click", "rich", "tomli"},
    "emulator": {"gputrain_emulator"},
    "doctor": {"attrs", "rich"},
    "code": {"attrs", "pathspec"},
    "google": CLOUD | {"urllib3", "cachetools"},
    "backends.local": {"attrs", "packaging"},
    **{f"backends.{name}": CLOUD for name in ("vertex", "compute", "google", "limits")},
}
"""What a package may import beside the standard library: attrs alone unless it stands here."""

LEVELS = {package: level for level, layer in enumerate(LAYERS) for package in layer}


def package_of(module):
    """The longest entry of LAYERS that a module lies in."""
    inner = module.removeprefix("gputrain").removeprefix(".")
    found = [one for one in LEVELS if inner == one or inner.startswith(f"{one}.")]
    assert found, f"{module} lies in no layer: add its package to LAYERS"
    return max(found, key=len)


def test_imports_run_down_only():
    wrong = []
    for module, found in imports().items():
        own = package_of(module)
        for name, line in found:
            if name.partition(".")[0] == "gputrain" and name != "gputrain.__version__":
                other = package_of(name)
                if other != own and LEVELS[other] >= LEVELS[own]:
                    wrong.append(f"{module}:{line} imports {name}")
    assert not wrong


def test_a_package_imports_only_the_distributions_that_it_may():
    wrong = []
    for module, found in imports(for_types=False).items():
        allowed = OUTSIDE.get(package_of(module), {"attrs"})
        for name, line in found:
            top = name.partition(".")[0]
            if top not in (allowed | {"gputrain"}) and top not in sys.stdlib_module_names:
                wrong.append(f"{module}:{line} imports {name}")
    assert not wrong


def test_the_emulator_shares_nothing_with_the_product():
    found = [(module, *one) for module, ones in imports(EMULATOR).items() for one in ones]
    assert not [one for one in found if one[1].partition(".")[0] == "gputrain"]


def needs():
    """Module -> those it imports but for types, without the ``__init__`` of its own package."""
    found = {module: {name for name, _ in ones} for module, ones in imports(for_types=False).items()}
    return {
        module: {one for one in names if one in found and not f"{module}.".startswith(f"{one}.")}
        for module, names in found.items()
    }


def test_there_are_no_circles():
    TopologicalSorter(needs()).prepare()
