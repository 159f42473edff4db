"""The user's own tables win over the built-in ones; what is not as we wrote it is left aside."""

import logging
import os
import subprocess
import sys

import pytest

from gputrain.catalog import load
from gputrain.catalog.load import FORMAT, UserFile, parsed, read, written
from tests.each import each

DAY = "2026-11-21"
OURS = UserFile(
    read_on=DAY,
    sources=(("billing", "Cloud Billing API", DAY),),
    places=(
        ("machine-regions", "g2-standard-4", "machine-regions", "us-central1 us-east1"),
        ("machine-zones", "g2-standard-4", "machine-regions", "us-central1-a us-east1-b"),
    ),
    prices=(("g2-standard-4", "us-central1", "0.8", "0.4", "0.5", "billing"),),
)
ASK = """
from gputrain import catalog
print(catalog.price("g2-standard-4", "us-central1"))
print(catalog.price("g2-standard-4", "us-central1", "flex-start"))
print(*catalog.zones(catalog.shapes(machine_type="g2-standard-4")[0]))
print(len(catalog.regions(catalog.shapes("H100", 8)[0], "vertex")) > 5)
"""


def asked(**env):
    """What a new process answers, and what it says besides."""
    result = subprocess.run(
        [sys.executable, "-c", ASK], env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    return result.stdout.splitlines(), result.stderr


def with_checksum(text):
    """The text as it would be had we written it."""
    head, _, body = text.partition("\n")
    magic, number, day, _ = head.split("\t")
    return "\t".join((magic, number, day, load._checksum(body))) + f"\n{body}"


def changed(before, after):
    text = written(OURS)
    assert before in text
    return with_checksum(text.replace(before, after))


def test_what_is_written_is_read_back_the_same(tmp_path):
    (tmp_path / "catalog.tsv").write_text(written(OURS))
    back = read(str(tmp_path / "catalog.tsv"))
    assert back == OURS


def test_the_users_tables_win_with_their_source_and_date_and_what_they_lack_stays(tmp_path):
    (tmp_path / "catalog.tsv").write_text(written(OURS))
    answers, said = asked(GPUTRAIN_CATALOG=str(tmp_path / "catalog.tsv"))
    assert answers == [f"$0.80/h ({DAY})", f"$0.50/h ({DAY})", "us-central1-a us-east1-b", "True"]
    assert said == ""


def test_without_the_file_the_built_in_tables_answer(tmp_path):
    answers, said = asked(GPUTRAIN_CATALOG=str(tmp_path / "none.tsv"))
    assert answers[:2] == ["$0.71/h (2026-07-30)", "None"]
    assert said == ""


def test_a_damaged_file_is_left_aside_with_a_warning_that_says_what_to_do(tmp_path):
    (tmp_path / "catalog.tsv").write_text(written(OURS)[:-30])
    answers, said = asked(GPUTRAIN_CATALOG=str(tmp_path / "catalog.tsv"))
    assert answers[0] == "$0.71/h (2026-07-30)"
    assert "cut short or changed" in said
    assert "python -m gputrain.refresh" in said


@each(
    ("text", "why"),
    [
        ("", "no catalog"),
        ("hello\n", "no catalog"),
        (written(OURS)[:-1], "cut short"),
        (written(OURS).replace("0.8", "0.1"), "changed after"),
        (written(OURS).replace(f"\t{FORMAT}\t", "\t999\t", 1), "format '999'"),
        (with_checksum(written(OURS).replace(DAY, "yesterday", 1)), "no day"),
        (changed("prices\tg2", "prizes\tg2"), "a row that is none"),
        (changed("\t0.8\t", "\t"), "a row that is none"),
        (changed("Cloud Billing API", "\x1b[2J"), "characters that no catalog has"),
        (changed("\t0.8\t", "\t-1\t"), "a price that is none"),
        (changed("\t0.8\t", "\tnan\t"), "a price that is none"),
        (changed("\t0.8\t", "\t1e3\t"), "a price that is none"),
        (changed("\t0.8\t", f"\t{'9' * 400}\t"), "a price that is none"),
        (changed("\t0.8\t0.4\t", "\t\tcheap\t"), "a price that is none"),
        (changed("\t0.4\t", "\t0.9\t"), "above the standard price"),
        (changed("\tbilling\n", "\tnowhere\n"), "a source that it does not hold"),
        (changed("machine-zones", "vertex-regions"), "a list of places"),
        (changed("us-east1-b", "../../etc"), "a list of places"),
        (changed("prices\tg2-standard-4\tus-central1", "prices\t\tus-central1"), "a price of what cannot be"),
        (with_checksum(written(OURS) + written(OURS).splitlines()[-1] + "\n"), "twice"),
    ],
)
def test_what_we_did_not_write_is_refused_with_a_reason(text, why):
    with pytest.raises(ValueError, match=why):
        parsed(text)


def test_a_pipe_or_a_device_does_not_keep_us_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert read(str(tmp_path / "pipe")) is None
    assert read(os.devnull) is None
    assert read(str(tmp_path)) is None


def test_a_huge_file_is_not_read_to_its_end(tmp_path):
    with open(tmp_path / "huge", "wb") as stream:
        stream.truncate(1 << 33)
    with pytest.raises(ValueError, match="larger than 4 MiB"):
        read(str(tmp_path / "huge"))


def test_a_file_of_bytes_that_are_no_text_is_refused(tmp_path):
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match="characters that no catalog has"):
        read(str(tmp_path / "binary"))


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs a file whose reading fails")
def test_a_file_that_cannot_be_read_is_left_aside_with_a_warning(caplog):
    with caplog.at_level(logging.WARNING, "gputrain"):
        assert load.sound("/proc/self/mem") is None
    assert "/proc/self/mem is left aside" in caplog.text


@pytest.mark.parametrize(
    ("env", "ends"),
    [
        ({"GPUTRAIN_CATALOG": "/a/b.tsv", "GPUTRAIN_HOME": "/h", "XDG_DATA_HOME": "/x"}, "/a/b.tsv"),
        ({"GPUTRAIN_HOME": "/h", "XDG_DATA_HOME": "/x"}, "/h/catalog.tsv"),
        ({"XDG_DATA_HOME": "/x"}, "/x/gputrain/catalog.tsv"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/home/u"}, "/home/u/.local/share/gputrain/catalog.tsv"),
        ({"HOME": "/home/u"}, "/home/u/.local/share/gputrain/catalog.tsv"),
    ],
)
def test_the_file_lies_where_users_keep_their_data(env, ends, monkeypatch):
    for name in ("GPUTRAIN_CATALOG", "GPUTRAIN_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert load.path() == ends
