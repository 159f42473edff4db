import pytest

from gputrain.backends.abilities import ABILITIES, lacks, members, strays
from gputrain.backends.base import Backend, CleansUp, OpensShells
from tests import present

CLOUD = {"project": "my-project", "regions": ["us-central1"], "bucket": "gs://b-1"}
ARGUMENTS = {"local": {"gpus": 0}, "vertex": CLOUD, "compute": CLOUD}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_every_public_name_of_a_backend_belongs_to_a_protocol(name):
    assert strays(present.backend(name)(**ARGUMENTS[name])) == ()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_backend_keeps_the_whole_core(name):
    assert lacks(present.backend(name)(**ARGUMENTS[name])) == ()


def test_no_two_protocols_share_a_name():
    names = [name for one in (Backend, *ABILITIES) for name in members(one)]
    assert len(names) == len(set(names))


def test_a_misspelt_ability_is_a_stray():
    class Slurm(present.backend("local")):
        def orphan(self):
            return ()

        def clean_up(self):
            return ()

    assert strays(Slurm()) == ("clean_up", "orphan")
    assert not isinstance(Slurm(), CleansUp)


def test_a_public_attribute_is_a_stray_too():
    backend = present.backend("local")()
    backend.resumes = True
    assert strays(backend) == ("resumes",)


def test_an_ability_is_had_without_inheriting_it():
    class Slurm(present.backend("local")):
        def ssh_command(self, ref, node_rank=0):
            return f"ssh {ref} {node_rank}"

    assert isinstance(Slurm(), OpensShells)
    assert strays(Slurm()) == ()


def test_a_class_that_inherits_the_core_and_lacks_some_of_it_cannot_be_made():
    class Half(Backend):
        @property
        def name(self):
            return "half"

    with pytest.raises(TypeError, match="abstract"):
        Half()
