"""Ranks that never meet are reported once; with a script that joins nothing, and one that joins."""

import socket

import pytest

from gputrain.runtime import network

PORT = 45871


@pytest.fixture
def said(monkeypatch):
    """What is said of ranks that use torch, by a clock that a test sets."""
    now, lines = [0.0], []
    monkeypatch.setattr(network.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(network.host, "uses_torch", lambda _pid: True)
    looks = network.Meeting(2, PORT, lambda text, _severity: lines.append(text))

    def at(second, **how):
        now[0] = second
        looks.look([1], **how)
        return lines

    return at


def test_ranks_that_never_meet_are_told_once_after_a_minute(said):
    assert said(30) == []
    (line,) = said(61)
    assert line.startswith("2 ranks ran and none joined a process group")
    assert said(90) == said(99, is_last=True) == [line]


def test_ranks_that_have_met_are_told_nothing_even_if_they_part(said):
    with socket.create_server(("127.0.0.1", PORT)):
        said(2)
    assert said(70) == said(80, is_last=True) == []
