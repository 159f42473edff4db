"""An interpreter like a Mac's, made of this one: what only Linux has is gone, for it and all that it starts.

A folder of links to the standard library, in which four modules are copies with some lines more. So it holds
under ``-I -S`` too, where no ``sitecustomize`` is read, as supervisors and agents start.
"""

import os
import shutil
import stat
import sys
import sysconfig
from pathlib import Path

GONE = {
    "posix": ("sched_getaffinity", "sched_setaffinity", "memfd_create", "pidfd_open", "eventfd", "splice"),
    "_signal": ("sigtimedwait", "sigwaitinfo", "SIGRTMIN", "SIGRTMAX"),
    "_socket": ("TCP_KEEPIDLE", "TCP_USER_TIMEOUT", "SO_PEERCRED", "AF_NETLINK"),
    "select": ("epoll",),
    "fcntl": ("F_OFD_SETLK", "F_OFD_SETLKW", "F_OFD_GETLK", "F_SETLEASE", "F_SETSIG"),
}
"""Names by module that Python has on Linux alone."""

_LOOKS = ("open", "stat", "lstat", "readlink", "listdir", "scandir", "access")

_FIRST = f"""
def _without_linux(gone={GONE!r}, looks={_LOOKS!r}):
    import posix, sys
    def blind(look):
        def seeing(path=".", *words, **named):
            text = path.decode() if isinstance(path, bytes) else path
            if is_blind and isinstance(text, str) and (text + "/").startswith("/proc/"):
                raise FileNotFoundError(2, "No such file or directory", path)
            return look(path, *words, **named)
        return seeing
    for name in looks:
        setattr(posix, name, blind(getattr(posix, name)))
    def hide(event, words):
        if is_blind and event == "open" and isinstance(words[0], str) and words[0].startswith("/proc/"):
            raise FileNotFoundError(2, "No such file or directory", words[0])
    sys.addaudithook(hide)
    is_blind = [True]
    class Seeing:
        def __enter__(self):
            is_blind.clear()
        def __exit__(self, *_):
            is_blind.append(True)
    sys.seeing = Seeing  # for the tests' own eyes
    def strip(module):
        for name in gone.get(module.__name__, ()):
            if hasattr(module, name):
                delattr(module, name)
    class Stripped:
        def __init__(self, loader):
            self.create_module, self._run = loader.create_module, loader.exec_module
        def exec_module(self, module):
            self._run(module)
            strip(module)
    class Finder:
        def find_spec(self, name, *where):
            if name in gone:
                found = (one.find_spec(name, *where) for one in sys.meta_path if one is not self)
                spec = next(one for one in found if one is not None)
                spec.loader = Stripped(spec.loader)
                return spec
    strip(posix)
    sys.meta_path.insert(0, Finder())
_without_linux()
"""

_SOCKET = """
def _one_loopback(method):
    def there(self, address, *words):
        if isinstance(address, tuple) and str(address[0]).startswith("127.") and address[0] != "127.0.0.1":
            raise OSError(99, "Cannot assign requested address")
        return method(self, address, *words)
    return there
for _name in ("bind", "connect", "connect_ex"):
    setattr(socket, _name, _one_loopback(getattr(_socket.socket, _name)))
"""

_CTYPES = """
def _without_prctl(self, name, _look=CDLL.__getattr__):
    if name == "prctl":
        raise AttributeError(name)
    return _look(self, name)
CDLL.__getattr__ = _without_prctl
"""

MORE = {"encodings/__init__.py": _FIRST, "socket.py": _SOCKET, "ctypes/__init__.py": _CTYPES}


def make(folder: Path) -> Path:
    """The interpreter, in an environment that sees the packages which this one sees."""
    home, library = folder / "home", Path(sysconfig.get_path("stdlib"))
    there = home / "lib" / library.name
    _link(library, there, {"site-packages", *(part.partition("/")[0] for part in MORE)})
    for name, text in MORE.items():
        whole = Path(name).parts[0]
        if "/" in name:
            _link(library / whole, there / whole, {Path(name).name, "__pycache__"})
        (there / name).write_text((library / name).read_text() + text)
    binary = home / "bin" / f"python3.{sys.version_info[1]}"
    binary.parent.mkdir()
    shutil.copy(os.path.realpath(sys.executable), binary)
    binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
    for shared in (library.parent).glob("libpython*"):
        (home / "lib" / shared.name).symlink_to(shared)
    made = folder / "venv"
    bin_folder = made / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").symlink_to(binary)
    (made / "pyvenv.cfg").write_text(f"home = {binary.parent}\ninclude-system-site-packages = false\n")
    site = made / "lib" / library.name / "site-packages"
    site.mkdir(parents=True)
    seen = (path for path in sys.path if path.endswith("-packages"))
    (site / "borrowed.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in seen))
    return bin_folder / "python"


def _link(source: Path, target: Path, but: set[str]) -> None:
    target.mkdir(parents=True)
    for entry in source.iterdir():
        if entry.name not in but:
            (target / entry.name).symlink_to(entry)
