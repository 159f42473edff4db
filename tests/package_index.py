"""A package index of this machine: packages of one module each, and the files that were brought from it."""

import os
import threading
import zipfile
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest


def wheel(folder, name, version, requires=(), script=""):
    """A package of one module, which names its version."""
    stem = name.replace("-", "_")
    place = folder / "simple" / name
    place.mkdir(parents=True, exist_ok=True)
    about = f"{stem}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    with zipfile.ZipFile(place / f"{stem}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{stem}.py", f"VERSION = {version!r}\ndef main(): print('ran', VERSION)\n")
        file.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        if script:
            file.writestr(f"{about}/entry_points.txt", f"[console_scripts]\n{script} = {stem}:main\n")
        file.writestr(f"{about}/RECORD", "")


class Index:
    """A simple index, and the files that were brought from it."""

    def __init__(self, folder):
        self.folder, self.brought = folder, []
        (folder / "simple").mkdir()
        index = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self):
                if self.path.endswith(".whl"):
                    index.brought.append(self.path.rpartition("/")[2])
                super().do_GET()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(
            ("127.0.0.1", 0), lambda *words: Handler(*words, directory=str(folder))
        )
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/simple"


@pytest.fixture
def index(tmp_path, monkeypatch):
    found = Index(tmp_path)
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", found.url)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    yield found
    found.server.shutdown()
    found.server.server_close()
