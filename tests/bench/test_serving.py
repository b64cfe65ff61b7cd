"""The measurement of the server under load."""

from command_line import Call


def test_clients_get_answers(model: str, call: Call) -> None:
    done = call("bench", "serve", "--model", model, "--clients", "1,3", "--seconds", "1", "--json")
    assert not done.code, done.err
    one, three = done.json
    assert (one["clients"], three["clients"]) == (1, 3)
    for row in (one, three):
        assert row["answers"] == round(row["answers_per_second"]) > 0
        assert 0 < row["p50"] <= row["p95"]
        assert row["memory"] > 2**20
    assert "no-such-model: no such folder" in call("bench", "serve", "--model", "no-such-model").err
