"""Addresses of Google and of an emulator: which are taken, and whose credentials go there."""

from gputrain.google.endpoints import GOOGLE, asked_for, reach

URL = "http://127.0.0.1:18080"


def test_the_variable_counts_where_no_endpoints_are_given_and_credentials_of_googles_stay_behind(monkeypatch):
    monkeypatch.setenv("GPUTRAIN_ENDPOINT", f"{URL}/_emulator/as/s3cret")
    found = asked_for(None, "mine")
    assert found["endpoints"].storage == URL
    assert found["credentials"].token == "s3cret"
    assert asked_for(GOOGLE, "mine") == {"endpoints": GOOGLE, "credentials": "mine"}
    monkeypatch.setenv("GPUTRAIN_ENDPOINT", "")
    assert asked_for(None, "mine") == {"endpoints": None, "credentials": "mine"}
    assert not hasattr(reach(URL)["credentials"], "refresh_token")
