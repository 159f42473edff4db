import pytest

from gputrain import Local, SpecError, Trainer


class Nothing:
    """Is no backend."""


@pytest.mark.parametrize("value", [7, Nothing(), Nothing, Local, "local", "vertx", {"local"}, iter(())])
def test_what_is_no_backend_is_refused_with_how_one_is_made(value):
    with pytest.raises(SpecError) as told:
        Trainer(value)
    (fault,) = told.value.faults
    assert fault.expected.startswith("a backend")
    assert "VertexAI(project=...)" in fault.fix


def test_a_region_that_is_likely_misspelt_is_told_by_the_plan(cloud, backend, now, script):
    def notes(name, *regions):
        trainer = Trainer(backend(name, regions=regions), now=now)
        notes = trainer.plan(script, gpu="L4:2", max_run_duration="1h").notes
        return [one for one in notes if "did you mean" in one]

    told = ["the catalog knows of nothing in us-centrl1; did you mean us-central1?"]
    assert notes("compute", "us-centrl1", "us-central1") == notes("vertex", "us-centrl1") == told
    assert notes("compute", "us-central1", "europe-west4") == []
    assert "did you mean us-east4 or us-west4?" in notes("vertex", "us-est4")[0]
