"""Shared by the tests of both distributions."""

import tempfile

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_temporaries(tmp_path_factory):
    """What tests and all that they start leave in the system's folder for such things goes with pytest's."""
    with pytest.MonkeyPatch.context() as patch:
        folder = str(tmp_path_factory.mktemp("tmp"))
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield
