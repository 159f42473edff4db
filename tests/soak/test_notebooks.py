"""The notebooks of the docs run from top to bottom, and their cells are what a notebook can bear."""

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

HERE = Path(__file__).parents[2] / "docs" / "notebooks"
MOST_BYTES = 60_000
"""Of one cell: a notebook's server drops what comes faster than a megabyte a second."""


@pytest.fixture(scope="module", params=sorted(HERE.glob("*.ipynb")), ids=lambda path: path.stem)
def notebook(request, tmp_path_factory):
    spec = importlib.util.spec_from_file_location("run_notebooks", HERE / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GPUTRAIN_PROGRESS", raising=False)
        patch.setenv("GPUTRAIN_HOME", "")  # the usual folder, whose names are short, but nobody's own
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield module.run(request.param, str(tmp_path_factory.mktemp("notebook")))


def outputs(notebook, kind):
    return [one for cell in notebook.cells for one in cell.get("outputs", ()) if one.output_type == kind]


def test_every_cell_is_small_and_has_a_text_for_consoles(notebook):
    shown = outputs(notebook, "display_data")
    assert shown
    for one in shown:
        assert len(one.data["text/html"]) <= MOST_BYTES
        assert "succeeded" in one.data["text/plain"] or "failed" in one.data["text/plain"]
        assert "object at 0x" not in one.data["text/plain"]


def test_an_error_is_its_message_without_our_frames(notebook):
    for one in outputs(notebook, "error"):
        assert "did you mean train.py?" in one.traceback[0]
        assert "gputrain/" not in "\n".join(one.traceback)


def test_nothing_is_written_to_the_error_stream(notebook):
    assert not [one.text for one in outputs(notebook, "stream") if one.name == "stderr"]
