"""An archive in the bucket is unpacked below the job's folder as plain files, or not at all."""

import io
import os
import random
import stat
import tarfile
import zlib

import pytest

from gputrain.runtime.loader import unpack

NAMES = (
    "../evil", "../../evil", "/evil", "//evil", "a/../../evil", "a/./b", "./a", "a//b", "..", ".", "",
    "a/",
    "a/..", "a\0b", "\ud8ffa", "\u202ea", "a\nb", "C:\\evil", "..\\evil", "a" * 300,
    "/".join("a" * 200 for _ in range(30)),
    "a", "a/b", "a/b/c", "link", "link/evil", "link/a", "train.py", ".gputrain/agent.pyz",
    "%2e%2e/evil", "~/evil",
    "/etc/cron.d/evil", "/proc/self/cwd/evil", "etc/passwd",
)  # fmt: skip
KINDS = (
    tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE,
    tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, b"Z",
)  # fmt: skip
TARGETS = ("..", "../..", "/", "/etc/passwd", "a", ".", "../outside", "", "link")


def archive(dice):
    """One that nobody chose: members of any name and kind, what goes through links, and torn bytes."""
    buffer = io.BytesIO()
    form = dice.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
    with tarfile.open(fileobj=buffer, mode="w", format=form, errors="surrogatepass") as tar:
        for _ in range(dice.randrange(1, 7)):
            member = tarfile.TarInfo(dice.choice(NAMES))
            member.type = dice.choice(KINDS) if dice.random() < 0.6 else tarfile.REGTYPE
            member.linkname = dice.choice(TARGETS)
            member.mode = dice.choice([0o644, 0o777, 0o4755, 0o6777, 0o000, 0o1777])
            member.uid = member.gid = dice.choice([0, 65534, 2**21])
            if form == tarfile.PAX_FORMAT and dice.random() < 0.3:
                member.pax_headers = {dice.choice(["path", "linkpath"]): dice.choice(NAMES[:10])}
            data = dice.randbytes(dice.randrange(100))
            member.size = len(data)
            try:
                tar.addfile(member, io.BytesIO(data))
            except (ValueError, UnicodeError):  # a form that cannot say this name
                continue
    whole = buffer.getvalue()
    if dice.random() < 0.3:
        at = dice.randrange(len(whole))
        whole = whole[:at] + dice.randbytes(dice.randrange(600)) + whole[at + dice.randrange(600) :]
    return (
        zlib.compress(whole, wbits=31) if dice.random() < 0.5 else whole[: dice.randrange(len(whole)) or None]
    )


def everything(folder):
    return {os.path.join(root, name) for root, *found in os.walk(folder) for names in found for name in names}


@pytest.mark.parametrize("seed", range(3))
def test_no_archive_of_a_hundred_writes_outside_or_makes_anything_but_plain_files(
    tmp_path, seed, monkeypatch
):
    dice = random.Random(seed)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("mine")
    monkeypatch.chdir(outside)
    taken = 0
    for number in range(100):
        root = tmp_path / f"job-{number}"
        root.mkdir()
        try:
            unpack(archive(dice), str(root))
            taken += 1
        except (SystemExit, tarfile.TarError, OSError, EOFError, ValueError):
            pass
        for path in everything(root):
            facts = os.lstat(path)
            assert stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode), path
            assert not facts.st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH), path
    jobs = {str(tmp_path / f"job-{number}") for number in range(100)}
    strangers = {
        one
        for one in everything(tmp_path)
        if not any(one == job or one.startswith(job + "/") for job in jobs)
    }
    assert strangers == {str(outside), str(outside / "kept")}
    assert (outside / "kept").read_text() == "mine"
    assert not os.path.exists("/evil")
    assert taken > 5, "the dice draw archives that are taken, too"
