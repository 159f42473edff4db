"""References in the variables of a container, by the examples of the Kubernetes reference and Vertex AI's."""

from gputrain_emulator.live.vertex_environment import expanded
from tests.each import each


@each(
    ("value", "found"),
    [
        ("$(JOB)", "7"),
        ("a-$(EARLIER)-$(JOB)", "a-e-7"),
        ("$(LATER)", "$(LATER)"),
        ("$$(JOB)", "$(JOB)"),
        ("$$$(JOB)", "$7"),
        ("$$", "$"),
        ("${JOB} $JOB $", "${JOB} $JOB $"),
        ("$(JOB", "$(JOB"),
    ],
)
def test_a_reference_is_replaced_by_what_is_known_before_it(value, found):
    rows = [
        {"name": "EARLIER", "value": "e"},
        {"name": "GIVEN", "value": value},
        {"name": "LATER", "value": "l"},
    ]
    assert expanded(rows, {"JOB": "7"})["GIVEN"] == found
