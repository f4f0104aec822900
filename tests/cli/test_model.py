"""Random sequences of commands against a dictionary with a past."""

import pytest
from conftest import history, items, run


class Model:
    """What the store must hold: each key's records, and each version's tag."""

    def __init__(self):
        self.records = {}
        self.clock = 1

    def value(self, key, at):
        value = None
        for version, written in self.records.get(key, []):
            if version <= at:
                value = written
        return value

    def items(self, at):
        found = ((key, self.value(key, at)) for key in sorted(self.records))
        return [(key, value) for key, value in found if value is not None]


def check(store, model):
    for at in range(model.clock + 1):
        assert items(store, "--at", str(at)) == model.items(at)
    for key, records in model.records.items():
        assert history(store, key, "--reverse") == records


@pytest.mark.parametrize("seed", range(4))
def test_commands_do_what_a_dictionary_with_a_past_does(store, rng, seed):
    model = Model()
    keys = [bytes(rng.choice(b"ab\xff") for _ in range(rng.randrange(4))) for _ in range(6)]
    run("put", "--hex", store, keys[0].hex(), "")
    model.records[keys[0]] = [(1, b"")]
    for _ in range(60):
        key = rng.choice(keys)
        kind = rng.random()
        if kind < 0.55:
            value = rng.randbytes(rng.randrange(30))
            run("put", "--hex", store, key.hex(), value.hex())
            model.records.setdefault(key, []).append((model.clock, value))
        elif kind < 0.8:
            there = model.value(key, model.clock) is not None
            run("del", "--hex", store, key.hex(), code=0 if there else 1)
            if there:
                model.records[key].append((model.clock, None))
        else:
            assert int(run("tag", store).stdout) == model.clock
            model.clock += 1
    check(store, model)
    assert run("verify", store, code=0)

    # What was built by commands survives a dump and a load, histories and all.
    copy = store + ".copy"
    dump = run("dump", store).stdout
    run("load", copy, stdin=dump)
    check(copy, model)
    assert run("dump", copy).stdout == dump
