"""The store against a model: a dict of histories, over random sequences of all operations with reopenings."""

import bisect
import shutil
import tempfile
from pathlib import Path

from conftest import open_store
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import icecore

# Few keys, so that histories grow; prefixes of each other and bytes at both ends of the order among them.
KEYS = st.sampled_from([b"", b"\x00", b"a", b"aa", b"aab", b"ab", b"b", b"key" * 40, b"\xff", b"\xff\xff"])
VALUES = st.binary(max_size=20) | st.integers(0, 9000).map(lambda n: b"v" * n)
MODES = st.sampled_from(["none", "tag", "operation"])


class Model:
    """What a store must answer: key -> [(version, value or None)], oldest first; name -> version."""

    def __init__(self):
        self.histories = {}
        self.tags = {}
        self.clock = 1

    def write(self, key, value):
        self.histories.setdefault(key, []).append((self.clock, value))

    def find(self, key, version):
        history = self.histories.get(key, [])
        place = bisect.bisect_right(history, version, key=lambda record: record[0])
        return history[place - 1][1] if place else None

    def at(self, version):
        found = {key: self.find(key, version) for key in sorted(self.histories)}
        return {key: value for key, value in found.items() if value is not None}

    def now(self):
        return self.at(self.clock)


class StoreMachine(RuleBasedStateMachine):
    versions = Bundle("versions")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="icecore-model-"))
        self.path = self.folder / "store.ice"
        self.model = Model()

    @initialize(mode=MODES)
    def create(self, mode):
        self.store = open_store(self.path, "x", durability=mode)
        self.model.clock = self.store.clock

    def teardown(self):
        try:
            if hasattr(self, "store"):
                assert self.store.verify().ok
                self.store.close()
                assert icecore.verify_file(self.path).ok
        finally:
            shutil.rmtree(self.folder)

    @rule(key=KEYS, value=VALUES)
    def insert(self, key, value):
        assert self.store.insert(key, value) == self.model.clock
        self.model.write(key, value)

    @rule(key=KEYS)
    def remove(self, key):
        there = self.model.find(key, self.model.clock) is not None
        assert self.store.remove(key) == (self.model.clock if there else None)
        if there:
            self.model.write(key, None)

    @rule(operations=st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=6))
    def batch(self, operations):
        with self.store.batch() as b:
            for key, value in operations:
                if value is None:
                    del b[key]
                else:
                    b[key] = value
        for key, value in dict(operations).items():
            if value is not None or self.model.find(key, self.model.clock) is not None:
                self.model.write(key, value)

    @rule(target=versions, name=st.none() | st.text(max_size=5))
    def tag(self, name):
        clock = self.model.clock
        if name and name in self.model.tags:
            try:
                self.store.tag(name)
            except icecore.TagExistsError:
                name = None
            else:
                raise AssertionError("a tag's name was given twice")
        assert self.store.tag(name, time=clock * 1000) == clock
        if name:
            self.model.tags[name] = clock
        self.model.clock += 1
        return clock

    @rule(target=versions)
    def sync(self):
        before = self.model.clock
        self.store.sync()
        assert before <= self.store.clock <= before + 1
        self.model.clock = self.store.clock
        return before - 1

    @rule(mode=MODES, read_first=st.booleans())
    def reopen(self, mode, read_first):
        now = self.model.now()
        self.store.close()
        if read_first:
            with open_store(self.path, "r") as reading:
                assert dict(reading) == now
        self.store = open_store(self.path, "r+", durability=mode)
        assert self.store.clock == self.model.clock  # numbers are skipped after a crash only

    @rule(version=versions)
    def read_a_snapshot(self, version):
        snapshot, expected = self.store.at(version), self.model.at(version)
        assert dict(snapshot) == expected
        assert list(snapshot.items(reverse=True)) == list(expected.items())[::-1]
        assert len(snapshot) == len(expected)
        keys, values = snapshot.to_numpy()
        assert dict(zip(keys, values)) == expected

    @rule(version=versions, key=KEYS)
    def find(self, version, key):
        expected = self.model.find(key, version)
        assert self.store.find(key, version) == expected
        assert self.store.at(version).get(key) == expected
        assert self.store.find_many([key, b"nope"], at=[version, version]) == [expected, None]

    @rule(version=versions, start=KEYS, stop=KEYS)
    def read_a_range(self, version, start, stop):
        expected = {k: v for k, v in self.model.at(version).items() if start <= k < stop}
        assert dict(self.store.at(version)[start:stop]) == expected

    @rule(key=KEYS)
    def read_a_history(self, key):
        expected = self.model.histories.get(key, [])
        assert [tuple(c) for c in reversed(self.store.history(key))] == expected
        assert [tuple(c) for c in self.store.history(key)] == expected[::-1]

    @rule(before=versions, after=versions)
    def read_a_difference(self, before, after):
        old, new = self.model.at(before), self.model.at(after)
        expected = [(k, old.get(k), new.get(k)) for k in sorted(old.keys() | new.keys()) if old.get(k) != new.get(k)]
        assert [tuple(d) for d in self.store.diff(before, after)] == expected

    @rule()
    def read_the_tags(self):
        assert {t.name: t.version for t in self.store.tags() if t.name} == self.model.tags
        for name, version in self.model.tags.items():
            assert self.store.at(tag=name).version == version

    @invariant()
    def the_present_is_right(self):
        if not hasattr(self, "store"):
            return
        for key in (b"", b"a", b"aab", b"\xff"):
            assert self.store.find(key) == self.model.find(key, self.model.clock)
        assert self.store.clock == self.model.clock


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
