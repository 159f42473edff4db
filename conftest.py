"""Shared by the tests of both distributions: the tier of a test is its folder."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent
TIERS = ("check", "machines", "soak", "gpu")
"""A test below a folder of this name is run by `make` of that name; all others by `make test`."""


SHARED = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("busy", deadline=None, suppress_health_check=SHARED)
settings.load_profile("busy")  # no law depends on how fast the machine is


def tier_of(path):
    """The tier of a file or folder, "" for `make test`; the emulator's own tests are of `make check`."""
    parts = path.relative_to(HERE).parts if path.is_relative_to(HERE) else ()
    of_emulator = "check" if parts[:1] == ("emulator",) else ""
    return next((part for part in reversed(parts) if part in TIERS), of_emulator)


def pytest_collection_modifyitems(items):
    """Mark each test with its tier, unless it bears the mark of a slower one itself."""
    for item in items:
        tier = tier_of(item.path)
        if tier and not any(item.get_closest_marker(one) for one in TIERS):
            item.add_marker(tier)


def pytest_ignore_collect(collection_path, config):
    """Folders of a tier that is not asked for are not even imported."""
    wanted = config.option.markexpr
    tier = tier_of(collection_path)
    return True if tier and f"not {tier}" in wanted else None


@pytest.fixture(scope="session", autouse=True)
def own_temporaries(tmp_path_factory):
    """What tests and all that they start leave in the system's folder for such things goes with pytest's."""
    with pytest.MonkeyPatch.context() as patch:
        folder = str(tmp_path_factory.mktemp("tmp"))
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield
