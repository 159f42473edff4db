"""Jobs whose maker died or was interrupted, whose folder is gone, or is not ours: with real processes."""

import json
import os

import pytest

from gputrain.backends.local import states
from gputrain.backends.local.backend import RECORDS
from gputrain.errors import PermissionDeniedError
from gputrain.keeper import folder, status
from gputrain.lifecycle import State
from gputrain.spec import TrainingSpec
from tests.each import each
from tests.unit.local.check.test_local_faults import WAIT
from tests.unit.local.conftest import none_left, record_of


def test_a_withdrawn_job_is_gone_and_its_name_is_free(road, script):
    spec = TrainingSpec(script=script(WAIT))
    ref = road.submit(spec, job_id="once-1")
    road.until_said(ref, "waiting")
    road.backend.recorder().clear(record_of(ref.name))
    assert none_left(ref, within_s=5)
    assert os.listdir(ref.place) == [RECORDS]
    assert road.backend.recorder().there(record_of("once-1")) is None
    again = road.submit(TrainingSpec(script=script("pass")), job_id="once-1")
    assert road.end(again).state is State.SUCCEEDED


def test_a_folder_that_is_no_job_is_not_taken_for_one(road, script):
    request = road.request(TrainingSpec(script=script("pass")), job_id="mine-1")
    (road.backend._root / "mine-1").mkdir(parents=True, mode=0o700)
    with pytest.raises(PermissionDeniedError, match="mine-1 is no job's folder"):
        road.backend.create(request)


def test_a_planted_folder_is_refused_and_nothing_of_it_is_run(road, script, tmp_path):
    request = road.request(TrainingSpec(script=script("pass")), job_id="planted-1")
    path = road.backend._root / "planted-1"
    path.mkdir(parents=True)
    (path / "order.json").write_text(
        json.dumps({"nodes": [], "start": ["/bin/touch", str(tmp_path / "run")]})
    )
    path.chmod(0o777)
    for look in (
        lambda: road.backend.create(request),
        lambda: road.backend.recorder().there(record_of("planted-1")),
        lambda: road.backend.observe(request.ref),
        lambda: road.backend.cancel(request.ref),
    ):
        with pytest.raises(PermissionDeniedError, match="not a folder of this user alone"):
            look()
    assert road.backend.find() == ()
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(road, script):
    request = road.request(TrainingSpec(script=script("pass")), job_id="planted-1")
    path = road.backend._root / "planted-1"
    path.mkdir(parents=True, mode=0o700)
    os.chown(path, 65534, 65534)
    with pytest.raises(PermissionDeniedError):
        road.backend.create(request)


ODD = [None, True, -1, 1e400, "x", "\ud800", [], {}, [[[]]], 10**30, "deep"]


FIELDS = (
    "phase", "schema", "attempt", "message", "running_at", "ended_at", "exit_code", "lost", "why", "result",
    "lost_lines", "disk_was_full",
)  # fmt: skip


@each("field", FIELDS)
def test_no_value_of_any_field_of_a_status_is_more_than_an_observation(tmp_path, field):
    tmp_path.chmod(0o700)
    folder.write_json(str(tmp_path / folder.ORDER), {"nodes": "all", "created_at": "x", "max_wait_s": []})
    for value in ODD:
        told = {"schema": status.SCHEMA, "phase": "ended", "lost": {"1": 99999}, field: value}
        text = json.dumps(told).replace('"deep"', "[" * 5000 + "]" * 5000)
        (tmp_path / folder.STATE).write_text(text)
        seen = states.observe(str(tmp_path))
        assert seen.state in (None, State.FAILED)
        seen.detail.encode()


@each("text", ["", "[]", "{", '{"phase": "flying", "schema": 2}', "[" * 100_000, "\x00"])
def test_a_damaged_status_is_an_observation_without_a_state(tmp_path, text):
    (tmp_path / folder.STATE).write_text(text)
    assert states.observe(str(tmp_path)).state is None
