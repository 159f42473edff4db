"""What is done by itself about jobs that come late: nothing trains of what was given up, and what was asked
for anew meanwhile does.
"""

import attrs
import pytest

from gputrain.records import MADE, MemoryBoard
from gputrain.trainer.boards import Boards
from gputrain.trainer.undo import given_up
from tests.unit.records.values import ASK, record

LATER = attrs.evolve(ASK, nonce="ffffffffffff", answer="")


class Barring:
    """A backend so far as this sees one: it keeps late jobs out, and what else happens happens meanwhile."""

    settles_s = turn_s = 0.0
    repeats = False

    def __init__(self, board):
        self.board = board
        self.meanwhile = []
        """What happens while it keeps them out, once."""
        self.barred, self.let = [], []

    def recorder(self):
        return self

    def may_come(self, _record):
        return True

    def bar(self, record):
        self.barred.append(record.latest.nonce)
        if self.meanwhile:
            self.meanwhile.pop()()

    def let_in(self, record):
        self.let.append(record.latest.nonce)

    def shut(self, _job_id):
        return None


@pytest.fixture
def place():
    return Barring(MemoryBoard())


@pytest.mark.parametrize(
    ("anew", "is_let_in"),
    [
        ((attrs.evolve(ASK, answer="refused", may_come=True), LATER), True),
        ((ASK, attrs.evolve(LATER, answer=MADE)), False),
        ((ASK,), True),
        (None, False),
    ],
    ids=["asked anew", "made", "taken up", "untouched"],
)
def test_what_somebody_asks_for_anew_while_it_is_given_up_may_train(place, anew, is_let_in):
    given = place.board.write(record(home=place.board.name))
    if anew is not None:
        place.meanwhile.append(lambda: place.board.write(attrs.evolve(given, asks=anew)))
    assert given_up(Boards({"compute": place}), place.board, given) is None
    assert place.barred[0] == ASK.nonce
    assert place.let == ([anew[-1].nonce] if is_let_in else [])


def test_what_is_given_up_and_gone_from_its_board_lets_nothing_in(place):
    given = place.board.write(record(home=place.board.name))
    place.meanwhile.append(lambda: place.board.remove(given))
    assert given_up(Boards({"compute": place}), place.board, given) is None
    assert (place.barred, place.let) == ([ASK.nonce], [])
