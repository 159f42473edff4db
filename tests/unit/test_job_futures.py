"""Jobs as futures, awaited and told: one thread for all of them, and nobody's stop is anybody else's."""

import asyncio
import concurrent.futures
import json
import pickle
import subprocess
import sys
import threading

import pytest

from gputrain import JobEvent, JobFailedError, Local, State, StoppedError, Trainer
from tests.patience import until

LASTS = "import time, sys\nprint('up', flush=True)\ntime.sleep(float(sys.argv[1]))\n"


@pytest.fixture
def trainer():
    return Trainer(Local(gpus=0))


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / f"train{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def long(trainer, script):
    """A job that runs until it is ended."""
    job = trainer.submit(script(LASTS), args=["600"])
    yield job
    job.cancel()
    job.wait()


def test_a_future_gives_the_result_or_its_error_each_time_anew(trainer, script):
    path = script("import sys\nif sys.argv[1] == '1': raise ValueError('of the script')\n")
    jobs = [trainer.submit(path, args=[str(number)]) for number in range(3)]
    futures = {job.future(): job for job in jobs}
    done = list(concurrent.futures.as_completed(futures, timeout=60))
    assert len(done) == 3
    errors = [futures[one].future().exception() for one in done]
    assert [type(one) for one in errors].count(JobFailedError) == 1
    assert jobs[0].future().result().uri == jobs[0].uri
    first, second = jobs[1].future().exception(), jobs[1].future().exception()
    assert first is not second
    assert "of the script" in first.traceback


def test_jobs_are_gathered_in_an_event_loop(trainer, script):
    async def all_of_them():
        path = script("import sys; sys.exit(int(sys.argv[1]))")
        jobs = [trainer.submit(path, args=[str(code)]) for code in (0, 3)]
        return await asyncio.gather(*jobs, return_exceptions=True)

    well, badly = asyncio.run(all_of_them())
    assert well.state == "succeeded"
    assert (type(badly), badly.exit_code) == (JobFailedError, 3)
    assert pickle.loads(pickle.dumps(well)).metrics.count == 0


@pytest.mark.parametrize("call", ["wait", "result"])
def test_a_stop_ends_the_waiting_at_once_and_never_the_job(long, call):
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(StoppedError):
        getattr(long, call)(stop=stop)
    assert not long.refresh().state.is_terminal


def test_a_stop_ends_the_following_of_a_log(long):
    stop, lines = threading.Event(), []
    for line in long.logs(follow=True, stop=stop):
        lines.append(line.message)
        stop.set()
    assert "up" in lines


def test_a_process_that_awaits_ends_at_once(long, tmp_path):
    (tmp_path / "job").write_bytes(pickle.dumps(long))
    code = "import pickle, sys; future = pickle.load(open(sys.argv[1], 'rb')).future(); print('bye')"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "job")], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "bye\n"), done.stderr
    assert not long.refresh().state.is_terminal


def test_each_change_is_told_as_a_small_event(trainer, script):
    told = []
    job = trainer.submit(script("raise KeyError('of the script')"), on_change=told.append)
    heard = []
    assert job.wait(timeout=60, on_change=heard.append) is State.FAILED
    until(lambda: told and told[-1].state.is_terminal)
    for events in (told, heard):
        assert all(isinstance(one, JobEvent) for one in events)
        assert [one.kind for one in events] == ["seen", *["state"] * (len(events) - 1)]
        document = json.loads(json.dumps(events[-1].to_dict()))
        assert set(document) == {
            "version", "kind", "uri", "id", "state", "place", "detail", "attempt", "cost_usd", "failure", "at"
        }  # fmt: skip
        assert (document["version"], document["state"], document["uri"]) == (1, "failed", job.uri)
        assert "of the script" in document["failure"]["traceback"]


def test_a_trainer_tells_of_all_jobs_that_live_and_that_come(trainer, script, long):
    told = {}
    old = trainer.submit(script("print(1)"))
    old.wait()
    watching = trainer.watch(lambda event: told.setdefault(event.id, []).append(event.state.value))
    path = script("print(1)")
    job = trainer.submit(path)
    other = Trainer(Local(gpus=0)).submit(path)
    job.wait()
    until(lambda: told.get(job.id, [""])[-1] == "succeeded" and long.id in told, shown=lambda: told)
    assert old.id not in told
    watching.close()
    other.wait()


@pytest.mark.parametrize("stop", [threading.Event()], ids=["with a stop"])
def test_a_wait_goes_on_whatever_its_listener_raises(trainer, script, caplog, stop):
    def listener(event):
        raise RuntimeError("of the listener")

    job = trainer.submit(script("print(1)"))
    assert job.wait(60, stop=stop, on_change=listener) is State.SUCCEEDED
    assert "a listener failed" in caplog.text


def test_a_submit_and_a_jobs_end_are_spans_where_somebody_receives_them(trainer, script):
    api = pytest.importorskip("opentelemetry.sdk.trace")
    from opentelemetry import trace
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    received, provider = InMemorySpanExporter(), api.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(received))
    trace.set_tracer_provider(provider)
    job = trainer.submit(script("raise SystemExit(3)"))
    job.wait()
    submitted, ended = received.get_finished_spans()
    assert (submitted.name, ended.name) == ("gputrain.submit", "gputrain.job")
    assert ended.attributes["gputrain.job.uri"] == job.uri
    assert not ended.status.is_ok
    assert ended.end_time - ended.start_time == pytest.approx(job.duration.total_seconds() * 1e9, rel=0.01)
