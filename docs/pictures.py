"""Make the pictures of docs/pictures: ``python docs/pictures.py [terminal] [site]``.

Terminals: the commands themselves, in a pseudo-terminal of each size, against the emulator and this machine.
The site and the README: in headless Chromium, from the folder that ``make site`` makes.
"""

import fcntl
import io
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

from markdown_it import MarkdownIt
from rich.console import Console
from rich.text import Text

import gputrain_emulator

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
SIZES = ((80, 24), (120, 40))
SCRIPT = """
import os
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"])
if os.environ["RANK"] == "1":
    raise ValueError("the learning rate is too high")
"""
SCENES = {
    "help": ("gputrain --help",),
    "plan": (
        "gputrain plan train.py --backend compute --region us-central1 --gpu L4:2 --max-run-duration 2h",
    ),
    "failed": ("gputrain submit train.py --nproc-per-node 2 --name first --backend local",),
    "jobs": ("gputrain jobs --backend local", "gputrain gpus H100:8 --region us-central1"),
}


def terminals():
    """Each scene at each size, as a picture of what stands on the screen at its end."""
    with gputrain_emulator.start() as cloud, tempfile.TemporaryDirectory() as folder:
        cloud.add_bucket("my-bucket", location="us-central1")
        Path(folder, "train.py").write_text(SCRIPT)
        where = {"ENDPOINT": cloud.endpoints.url, "PROJECT": "my-project", "BUCKET": "gs://my-bucket"}
        env = {**os.environ, **{f"GPUTRAIN_{name}": value for name, value in where.items()}}
        env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "GPUTRAIN_HOME": f"{folder}/home"}
        env |= {"PATH": f"{Path(sys.executable).parent}:{env['PATH']}"}
        for scene, commands in SCENES.items():
            for columns, lines in SIZES:
                asked = {f"\x1b[1m$ {one}\x1b[0m\n": one for one in commands}
                said = "".join(head + _said(one, columns, lines, folder, env) for head, one in asked.items())
                shown = _screen(said.replace(cloud.endpoints.url, "http://127.0.0.1:18080"), columns, lines)
                name = f"{scene}-{columns}x{lines}"
                (PICTURES / f"{name}.svg").write_text(_drawn(shown, columns, name))


def _said(command, columns, lines, folder, env):
    """What a command writes into a terminal of that size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    child = subprocess.Popen(command.split(), cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:  # the last of those who wrote has gone
            break
        if not data:
            break
        said += data
    child.wait()
    os.close(ours)
    return said.decode().replace("\r\n", "\n")


def _screen(said, columns, lines):
    """The last rows, as a terminal wraps and rewrites them."""
    rows = []
    for row in said.rstrip("\n").split("\n"):
        text = Text.from_ansi(re.sub(r"^.*(\r|\x1b\[\dK|\x1b\[2?K)", "", row))
        rows += [text[at : at + columns] for at in range(0, max(1, len(text)), columns)]
    return rows[-lines:]


def _drawn(rows, columns, name):
    console = Console(
        record=True, width=columns, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for row in rows:
        console.print(row, overflow="ignore", crop=False, no_wrap=True)
    console.print()  # or the last row is cut
    picture = console.export_svg(title=f"{columns} columns", unique_id=name.replace("x", "-"))
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)


def pages():
    """The site's first page at two widths, and the first screen of the README as an index page shows it."""
    site = ROOT / "site" / "index.html"
    _shot(site, "site-wide.png", 1200, 750)
    _shot(site, "site-narrow.png", 500, 800)
    with tempfile.TemporaryDirectory() as folder:
        body = MarkdownIt("gfm-like", {"linkify": False}).render((ROOT / "README.md").read_text())
        style = "body{font:16px/1.5 sans-serif;max-width:900px;margin:2em auto}"
        style += "pre{background:#f6f8fa;padding:1em}"
        page = Path(folder, "readme.html")
        page.write_text(f"<meta charset=utf-8><style>{style}</style>{body}")
        _shot(page, "readme.png", 1000, 800)


def _shot(page, name, width, height):
    chromium = [shutil.which("chromium"), "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]
    with tempfile.TemporaryDirectory() as profile:
        words = [f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        words += [f"--screenshot={PICTURES / name}", page.as_uri()]
        subprocess.run([*chromium, *words], check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    wanted = sys.argv[1:] or ["terminal", "site"]
    if "terminal" in wanted:
        terminals()
    if "site" in wanted:
        pages()
