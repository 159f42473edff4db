"""Backends are found by the entry points of whatever is installed."""

import subprocess
import sys

import pytest

import gputrain
from gputrain import Local, SpecError, Trainer
from gputrain.backends import registry
from gputrain.backends.base import JobRef
from gputrain.cli import main, settings
from gputrain.cli.parser import read as parse
from gputrain.cli.screen import Exit
from gputrain.gcp.endpoints import reach
from tests import present

OURS = sorted(set(present.CLASSES) - present.ABSENT)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a distribution with one backend: its rows, and its module's text."""

    def install(rows, text="", name="acme"):
        site = tmp_path / name
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[gputrain.backends]\n" + "\n".join(rows) + "\n")
        (site / f"{name}_backend.py").write_text(text)
        monkeypatch.syspath_prepend(site)

    return install


def refused(call):
    with pytest.raises(SpecError) as told:
        call()
    assert [fault.field for fault in told.value.faults] == ["backend"]
    return str(told.value)


def test_our_own_backends_are_rows_as_any_others():
    assert set(registry.names()) >= set(OURS)
    assert [registry.find(name).__name__ for name in OURS] == [present.CLASSES[name] for name in OURS]


def test_a_backend_is_found_once_its_distribution_is_installed(installed):
    before = registry.names()
    installed(["acme = acme_backend:Acme"], "from gputrain.backends.local import Local as Acme")
    assert set(registry.names()) == {*before, "acme"}
    assert registry.find("acme").__name__ == "Local"


@pytest.mark.parametrize(
    ("row", "text", "said"),
    [
        ("acme = acme_backend:Nothing", "", "AttributeError"),
        ("acme = acme_gone:Acme", "", "No module named 'acme_gone'"),
        ("acme = acme_backend:Acme", "import acme_needs_this", "No module named 'acme_needs_this'"),
        ("acme = acme_backend:Acme", "def (", "SyntaxError"),
        ("acme = acme_backend:Acme", "raise ValueError('no licence')", "ValueError: no licence"),
        ("acme = acme_backend:Acme", "Acme = nowhere", "NameError"),
        ("acme = acme_backend:Acme", "raise SystemExit(3)", "SystemExit: 3"),
        (
            "acme = acme_backend:Acme",
            "class Mute(Exception):\n    __str__ = None\nraise Mute",
            "cannot be loaded: Mute: ",
        ),
        (
            "acme = acme_backend:Acme",
            "from gputrain import Local\nclass Acme(Local): create, find, name = property(id), 7, Local.find",
            "it has no create (a method), find (a method), name (a property)",
        ),
        ("acme = acme_backend:Acme", "class Acme:\n    name = 'acme'", "it has no availability, cancel"),
        ("acme = acme_backend:Acme", "from gputrain import Local\nAcme = Local()", "is no backend"),
    ],
)
def test_a_broken_distribution_is_named_with_what_is_wrong(installed, row, text, said):
    installed([row], text)
    sys.modules.pop("acme_backend", None)
    told = refused(lambda: registry.find("acme"))
    assert said in told
    assert "reinstall acme, or uninstall it" in told
    assert registry.find("local").__name__ == "Local"
    assert "acme" in registry.names()


def test_two_distributions_that_bring_one_name_are_both_told(installed):
    installed(["local = acme_backend:Acme"])
    told = refused(lambda: registry.find("local"))
    assert "acme and gputrain both bring one" in told


def test_a_job_of_a_backend_that_is_not_installed_says_what_to_install():
    told = refused(lambda: gputrain.attach("gputrain://slurm/p/gpu-long/bert-1"))
    assert "install the package that brings it" in told
    assert "`slurm = ...` in its entry points gputrain.backends" in told


def test_a_slip_in_a_name_is_told():
    assert "did you mean compute?" in refused(lambda: registry.find("computer"))


def test_a_backend_that_cannot_be_made_from_a_name_says_how_to_attach(installed):
    text = "from gputrain.backends.local import Local\nclass Acme(Local):\n    for_ref = None"
    installed(["acme = acme_backend:Acme"], text)
    sys.modules.pop("acme_backend", None)
    ref = JobRef(backend="acme", project="p", place="x", name="n")
    assert "gputrain.attach(uri, backend=Acme(...))" in refused(lambda: registry.of_ref(ref))


@pytest.mark.parametrize(
    ("name", "maker", "said"),
    [
        ("acme", "classmethod(lambda cls, ref, **given: {}['x'])", "came KeyError: 'x'"),
        ("acme", "classmethod(lambda cls, ref, **given: 5)", "it has no availability, cancel"),
        ("acme", "3", "came TypeError"),
        ("acme", "classmethod(lambda cls, ref, **given: exit(3))", "came SystemExit: 3"),
        ("other", "classmethod(lambda cls, ref, **given: cls())", "it calls itself 'other'"),
    ],
)
def test_what_goes_wrong_in_making_a_backend_from_a_name_is_told_of_it(installed, name, maker, said):
    text = f"from gputrain import Local\nclass Acme(Local):\n    name = {name!r}\n    for_ref = {maker}"
    installed(["acme = acme_backend:Acme"], text)
    sys.modules.pop("acme_backend", None)
    assert said in refused(lambda: gputrain.attach("gputrain://acme/p/x/n"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("    def __init__(self, *, root=None): int('many')", "from its settings came ValueError: invalid"),
        ("    name = 'other'", "what is made from its settings is another: it calls itself 'other'"),
    ],
)
def test_what_goes_wrong_in_making_a_backend_from_its_settings_is_told_of_it(
    installed, tmp_path, monkeypatch, capsys, text, said
):
    installed(["acme = acme_backend:Acme"], f"from gputrain import Local\nclass Acme(Local):\n{text}")
    sys.modules.pop("acme_backend", None)
    monkeypatch.chdir(tmp_path)
    assert main(["jobs", "--backend", "acme"]) == Exit.REQUEST
    told = capsys.readouterr().err
    assert f"the backend 'acme' cannot be used: {said}" in told
    assert "under [acme] in gputrain.toml" in told


@pytest.mark.parametrize("uri", [None, 5, b"gputrain://local/n", ["gputrain://local/n"]])
def test_what_is_no_text_names_no_job(uri):
    with pytest.raises(SpecError, match="names no job\n  why: it must be gputrain://"):
        gputrain.attach(uri)


def test_only_arguments_that_a_backend_takes_reach_it(tmp_path):
    ref = JobRef(backend="local", project="p", place=str(tmp_path), name="n")
    made = registry.of_ref(ref, gpus=0, endpoints=object())
    assert repr(made) == f"Local(gpus=0, root={str(tmp_path)!r})"


EMULATOR = "http://127.0.0.1:9"
NAMED = """from gputrain import {base}
class Acme({base}):
    name = 'acme'
"""
HANDS_ON = "    def __init__(self, *args, **kwargs): super().__init__(*args, **kwargs)\n"
FIXED = "    def __init__(self, project, region): super().__init__(project, region)\n"
ALONE = """    def __init__(self, root, *, racks=(), **options):
        super().__init__(root=root)
        self.options = options
"""


def acme(installed, base, init):
    """The class of an installed backend whose constructor is written so."""
    present.backend({"VertexAI": "vertex", "Local": "local"}[base])
    installed(["acme = acme_backend:Acme"], NAMED.format(base=base) + init)
    sys.modules.pop("acme_backend", None)
    return registry.find("acme")


def test_a_backend_that_hands_any_name_on_takes_what_its_base_takes(installed):
    mine, theirs = registry.takes(acme(installed, "Local", HANDS_ON)), registry.takes(registry.find("local"))
    assert (set(mine.names), mine.needed, mine.is_open) == ({"gpus", "root"}, (), False)
    assert mine == theirs


def test_a_backend_whose_bases_end_takes_any_name(installed):
    kind = acme(installed, "Local", ALONE)
    found = registry.takes(type("Rack", (), {"__init__": kind.__init__}))
    assert (found.names, found.needed, found.is_open) == (("root", "racks"), ("root",), True)
    assert found.take("whatever")
    assert not registry.takes(kind).take("whatever")


def test_a_backend_that_hands_any_name_on_is_led_to_the_emulator_as_its_base_is(installed):
    acme(installed, "VertexAI", HANDS_ON)
    ref = JobRef(backend="acme", project="my-project", place="us-central1", name="n")
    assert registry.of_ref(ref, **reach(EMULATOR)).trial == EMULATOR


@pytest.mark.parametrize(
    ("init", "said"),
    [
        (FIXED, f"it would not speak to {EMULATOR}, but to Google"),
        (FIXED.replace("region)", "region, endpoints=None)", 1), "takes endpoints and not credentials"),
        (FIXED.replace("region)", "region, credentials=None)", 1), "takes credentials and not endpoints"),
    ],
)
def test_a_backend_that_would_lose_the_way_to_the_emulator_is_refused(installed, init, said):
    acme(installed, "VertexAI", init)
    ref = JobRef(backend="acme", project="my-project", place="us-central1", name="n")
    assert said in refused(lambda: registry.of_ref(ref, **reach(EMULATOR)))


def test_a_backend_without_google_is_reached_whatever_stands_for_google(installed, tmp_path):
    acme(installed, "Local", HANDS_ON)
    ref = JobRef(backend="acme", project="p", place=str(tmp_path), name="n")
    assert registry.of_ref(ref, **reach(EMULATOR)).name == "acme"


@pytest.mark.parametrize(
    ("base", "init", "section"),
    [
        ("VertexAI", HANDS_ON, "project = 'my-project'\nregions = ['us-central1']\ndisk_gib = 200"),
        ("Local", HANDS_ON, "root = 'jobs'"),
        ("Local", ALONE, "root = 'jobs'"),
    ],
)
def test_the_section_of_a_backend_with_any_arguments_reaches_it(
    installed, tmp_path, monkeypatch, base, init, section
):
    acme(installed, base, init)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "theirs")
    (tmp_path / "gputrain.toml").write_text(f"[acme]\n{section}\n")
    words = ["plan", "train.py", "--backend", "acme", "--endpoint", EMULATOR]
    (backend,) = settings.read(parse(words), {}).make()
    assert backend.name == "acme"


def test_what_no_argument_is_called_is_no_key_of_a_section(installed, tmp_path, monkeypatch):
    acme(installed, "Local", HANDS_ON)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gputrain.toml").write_text("[acme]\nroots = 'jobs'\n")
    with pytest.raises(SpecError, match="did you mean 'root'"):
        settings.read(parse(["plan", "train.py"]), {})


def test_naming_nothing_reads_no_metadata():
    code = "import sys, gputrain, gputrain.cli; gputrain.cli.main(['plan', '--help'])"
    code = f"try:\n    exec({code!r})\nfinally:\n    assert 'importlib.metadata' not in sys.modules"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_default_is_this_machine():
    assert isinstance(Trainer()._backends["local"], Local)
