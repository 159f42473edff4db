"""The code of a job is packed and sent once for each backend, and all of them run what was submitted."""

import attrs
import pytest

from gputrain import AuthError, RequestError, TrainingSpec, TransientError
from gputrain.jobstore import JobRecord
from gputrain.trainer.planner import Code
from tests.each import each
from tests.unit.trainer.places import Place

SPEC = TrainingSpec(script="train.py")
RECORD = JobRecord(job_id="bert", spec=SPEC.to_dict(), options=())


@pytest.fixture
def places(world):
    """Two backends that count what they are sent."""
    made = {name: Place(name, world) for name in ("compute", "vertex")}
    for one in made.values():
        one.sent = []
        one.upload = one.sent.append
        one.code = attrs.evolve(one.code, content=b"code")
    return made


def test_the_code_is_sent_once_for_each_backend_and_not_kept_in_memory(places):
    code = Code(places, SPEC)
    for name in ("compute", "vertex", "compute"):
        assert code(RECORD, name).content == b""
    assert [[len(one.content) for one in each.sent] for each in places.values()] == [[4], [4]]


def test_code_that_has_changed_since_is_run_nowhere(places):
    record = attrs.evolve(RECORD, code="1" * 64)
    with pytest.raises(RequestError, match="has changed"):
        Code(places, SPEC)(record, "compute")
    assert not places["compute"].sent


def test_who_only_knows_the_job_runs_what_was_kept(places):
    record = attrs.evolve(RECORD, code="0" * 64, argv=("train.py", "--lr", "1"))
    bundle = Code(places)(record, "vertex")
    assert (bundle.argv, bundle.sha256) == (record.argv, record.code)
    places["vertex"].find_code = lambda *_: None
    with pytest.raises(RequestError, match="not kept"):
        Code(places)(record, "vertex")


@each(
    ("refuses", "is_at_hand"),
    [(None, True), (TransientError("later"), True), (RequestError("gone"), False), (AuthError("no"), False)],
)
def test_code_is_at_hand_unless_somebody_says_that_it_is_not(places, refuses, is_at_hand):
    def upload(_bundle):
        if refuses is not None:
            raise refuses

    places["compute"].upload = upload
    record = attrs.evolve(RECORD, code="0" * 64, argv=("train.py",))
    assert Code(places).is_at_hand(record, "compute") is is_at_hand
