import itertools
from datetime import datetime, timedelta, timezone

import pytest

from gputrain import Local, RequestError, SpecError, Trainer, TransientError
from gputrain.backends.base import JobRef, LogLine, LogPage
from gputrain.job import reading
from gputrain.job.lines import LineFilter
from gputrain.job.reading import LogReader
from gputrain.keeper import folder

NOON = datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
SPEAKS = """
import os, sys
for step in range(50):
    print(f"step {step}")
print("late words", file=sys.stderr)
"""


@pytest.fixture(scope="module")
def spoken(tmp_path_factory):
    """A job of two ranks that has said what it had to say."""
    script = tmp_path_factory.mktemp("speaks") / "speaks.py"
    script.write_text(SPEAKS)
    job = Trainer(Local(gpus=0, root=str(script.parent / "jobs"))).submit(str(script), nproc_per_node=2)
    job.wait(60)
    return job


def messages(lines):
    return [line.message for line in lines]


def test_the_last_lines_of_a_rank(spoken):
    assert messages(spoken.logs(rank=1, grep="^step", tail=2)) == ["step 48", "step 49"]
    assert messages(spoken.logs(rank=0, tail=0)) == []


def test_lines_in_which_an_expression_is_found(spoken):
    assert messages(spoken.logs(rank=0, grep=r"^step 4\d?$")) == [
        "step 4",
        *(f"step {n}" for n in range(40, 50)),
    ]


def test_lines_that_agents_write_for_programs_are_not_among_them(spoken):
    assert not [line for line in spoken.logs() if line.message.startswith("GPUTRAIN_")]
    assert messages(spoken.logs(tail=1)) != []


def test_a_log_that_is_looked_at_tells_how_to_read_it(spoken):
    lines = spoken.logs(rank=0, grep="^step")
    told = f"<the log of {spoken.id}: for line in job.logs(): print(line.rank, line.message)>"
    assert repr(lines) == repr(spoken.logs(tail=5)) == told
    assert next(lines).message == "step 0"
    assert len(list(lines)) == 49


def test_an_expression_that_is_none_is_refused_at_once(spoken):
    with pytest.raises(RequestError, match="no regular expression"):
        spoken.logs(grep="step (")


def test_lines_of_the_last_minutes(spoken):
    assert messages(spoken.logs(rank=0, since=timedelta(hours=1), grep="step 7")) == ["step 7"]
    assert messages(spoken.logs(since=datetime.now(timezone.utc) + timedelta(hours=1))) == []


def test_the_tail_of_a_job_that_is_followed_comes_first(spoken):
    assert messages(spoken.logs(rank=0, grep="step", tail=1, follow=True)) == ["step 49"]


def test_a_line_without_a_time_goes_with_the_one_before_it():
    lines = [
        LogLine(message="early", time=NOON - timedelta(seconds=1)),
        LogLine(message="  of the early one"),
        LogLine(message="late", time=NOON),
        LogLine(message="  of the late one"),
    ]
    assert messages(LineFilter(since=NOON).of(lines)) == ["late", "  of the late one"]


class Endless:
    """A platform whose log never ends, of which a page is read at a time."""

    def __init__(self):
        self.read = 0

    def logs(self, ref, cursor=""):
        self.read += 1
        at = int(cursor or 0)
        return LogPage(
            lines=(LogLine(message=f"{ref.name} {at}"),), cursor=str(at + 1), missed_bytes=at == 1 and 7
        )


class Failing(Local):
    """This machine, whose looks and logs fail now and then."""

    faults = ()

    def observe(self, ref):
        return self._fails() or super().observe(ref)

    def logs(self, ref, cursor=""):
        return self._fails() or super().logs(ref, cursor)

    def _fails(self):
        if next(self.faults, False):
            raise TransientError("the logging service does not answer")


def test_a_log_that_is_followed_goes_on_after_a_failure(tmp_path, monkeypatch, caplog):
    script, place = tmp_path / "speaks.py", Failing(gpus=0, root=str(tmp_path / "jobs"))
    script.write_text(SPEAKS)
    place.faults = iter(())
    job = Trainer(place).submit(str(script), nproc_per_node=1)
    place.faults = iter([True, True, False, True])
    assert len(list(job.logs(rank=0, grep="^step", follow=True))) == 50
    assert caplog.text.count("cannot be read; trying on: the logging service does not answer") == 1
    monkeypatch.setattr(reading, "BLIND_FOR_AT_MOST_S", 0.1)
    for follow in (True, False):
        place.faults = itertools.repeat(True)
        with pytest.raises(TransientError):
            list(job.logs(follow=follow))


def test_pages_are_read_as_they_are_asked_for():
    backend, ref = Endless(), JobRef(backend="x", project="p", place="z", name="a")
    pages = LogReader().pages(backend, ref)
    assert messages(next(pages)) == ["a 0"]
    assert backend.read == 1
    assert messages(next(pages)) == ["... 7 bytes of log were lost here ...", "a 1"]


def test_a_reader_starts_anew_where_the_job_went_on_under_another_name():
    backend, reader = Endless(), LogReader()
    for name in ("a", "b"):
        ref = JobRef(backend="x", project="p", place="z", name=name)
        assert messages(next(reader.pages(backend, ref))) == [f"{name} 0"]


LONG = """
import os, sys
for step in range(20_000):
    print(f"step {step} of a long run, with some words behind it")
if os.environ["RANK"] == "1":
    print("rare")
"""


@pytest.mark.check
def test_the_last_lines_of_a_long_log_are_read_from_its_end(tmp_path, monkeypatch):
    script = tmp_path / "long.py"
    script.write_text(LONG)
    job = Trainer(Local(gpus=0, root=str(tmp_path / "jobs"))).submit(str(script), nproc_per_node=2)
    job.wait(60)
    whole = list(job.logs())
    pages, read = [], Local.logs
    monkeypatch.setattr(Local, "logs", lambda *words: pages.append(read(*words)) or pages[-1])
    assert list(job.logs(tail=5)) == whole[-5:]
    assert sum(len(page.lines) for page in pages) < 8000  # of 40,001; lines of one reading share a time
    assert messages(job.logs(tail=2, rank=0)) == [line.message for line in whole if line.rank == 0][-2:]
    assert messages(job.logs(tail=3, grep="^rare$")) == ["rare"]
    assert list(job.logs(tail=10**9)) == whole


def test_what_a_rank_said_last_is_found_without_reading_all_before_it(tmp_path, monkeypatch):
    script = tmp_path / "short.py"
    script.write_text("print('short')")
    job = Trainer(Local(gpus=0, root=str(tmp_path / "jobs"))).submit(str(script), nproc_per_node=1)
    job.wait(60)
    (log,) = (tmp_path / "jobs").rglob(folder.NODE_LOG.format(node_rank=0))
    long = "x" * 2000 + "\n"
    with log.open("a") as file:  # as much as a day of talk, in few lines
        file.writelines([long * 45_000, "rare\n", long * 15_000])
    lines, read = [], Local.logs

    def counted(*words):
        page = read(*words)
        lines.append(len(page.lines))
        return page

    monkeypatch.setattr(Local, "logs", counted)
    assert messages(job.logs(tail=1, grep="^rare$")) == ["rare"]
    assert sum(lines) < 35_000  # of 60,000: 21,000 of them hold it, and a third of that is read again
    log.unlink()


def test_the_last_lines_of_a_log_that_tells_no_more_are_few(tmp_path):
    script = tmp_path / "short.py"
    script.write_text("print('short')")
    job = Trainer(Local(gpus=0, root=str(tmp_path / "jobs"))).submit(str(script), nproc_per_node=1)
    job.wait(60)
    assert messages(job.logs(tail=7, rank=0)) == ["short"]
    assert list(job.logs(tail=0)) == []
    assert [job._backend.cursor_near_end(job.ref, lines) for lines in (0, -1)] == ["", ""]


@pytest.mark.parametrize("wrong", [{"tail": "5"}, {"tail": -1}, {"tail": True}, {"rank": -1}, {"rank": 0.5}])
def test_a_count_that_is_none_is_refused_at_once(spoken, wrong):
    with pytest.raises(SpecError, match=next(iter(wrong))):
        spoken.logs(**wrong)


@pytest.mark.parametrize("wrong", ["a{99999999999}", b"step", 5, "(" * 5000 + ")" * 5000])
def test_what_cannot_be_looked_for_is_refused_at_once(spoken, wrong):
    with pytest.raises(RequestError, match="no regular expression"):
        spoken.logs(grep=wrong)


def test_a_line_is_printed_as_commands_print_it_and_moves_no_terminal():
    assert str(LogLine(message="loss 3", rank=1)) == "[1] loss 3"
    assert str(LogLine(message="\x1b]52;c;aGk=\x07")) == "[agent] \\x1b]52;c;aGk=\\x07"


def test_a_page_that_the_handler_of_a_signal_has_read_meanwhile_is_told_once():
    told, reader = [], LogReader()

    class Interrupted:
        asked = 0

        def logs(self, ref, cursor):
            self.asked += 1
            if self.asked == 1:
                told.extend(reader.pages(self, ref))
            lines = () if cursor else (LogLine(message="loss 0.5"),)
            return LogPage(lines=lines, cursor="1")

    told.extend(reader.pages(Interrupted(), JobRef(backend="local", project="p", place="here", name="j")))
    assert told == [(LogLine(message="loss 0.5"),)]
