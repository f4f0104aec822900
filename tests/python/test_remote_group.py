"""Several independent servers as one, from Python."""

import dataclasses
import threading
import time

import pytest
from remote_server import Server, independent_servers, needs_server

from icecore import errors

remote = pytest.importorskip("icecore.remote")
pytestmark = needs_server

# XXH64 with seed 0, by its authors' C library, of the first bytes of 1, 38, 75, ...
HASHES = [
    (0, 0xef46db3751d8e999),
    (7, 0x867016365a073839),
    (14, 0x65b4ebd641341bc0),
    (21, 0xa84260f0dd8e5a8d),
    (28, 0x4c64dd705e4d70b2),
    (31, 0x1a64d6e3a15b1857),
    (32, 0x9e097eeb3867c631),
    (33, 0x38c61181c1b3c4dc),
    (35, 0x5bbeec177a9e33d6),
    (36, 0x5f488507625e6a4a),
    (42, 0xfcf7ea2f8dfe7d1f),
    (49, 0x57290e777b950046),
    (56, 0x2ba55e72f9c7e8da),
    (63, 0x581606fe115679c2),
    (70, 0xb415116133b1d9ce),
]


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with independent_servers(tmp_path_factory, 3) as running:
        yield running


@pytest.fixture
def group(servers):
    with remote.connect_group([server.address for server in servers], group="g") as connected:
        yield connected


@pytest.fixture
def store(group, request):
    name = request.node.name
    yield group.create(name)
    group.drop(name)


KEYS = [b"key%03d" % i for i in range(120)]


def test_the_owner_of_a_key_is_what_servers_compute():
    from icecore.remote._group import _xxh64

    data = bytes((i * 37 + 1) % 256 for i in range(100))
    for size, digest in HASHES:
        assert _xxh64(data[:size]) == digest, size
    assert {remote.owner_of(key, 3) for key in KEYS} == {0, 1, 2}


def test_a_list_that_is_not_the_group_is_refused(servers):
    a, b, c = (server.address for server in servers)
    for wrong in ([a, b], [b, a, c], [a, b, c, c], [a, a, a]):
        with pytest.raises(errors.OtherClusterError):
            remote.connect_group(wrong)
    with pytest.raises(errors.OtherClusterError):
        remote.connect_group([a, b, c], group="another")


def test_a_dependent_group_is_refused(servers, monkeypatch):
    told = remote.Client.status
    assert not remote.connect(servers[0].address).status().dependent
    monkeypatch.setattr(remote.Client, "status", lambda self: dataclasses.replace(told(self), dependent=True))
    with pytest.raises(errors.OtherClusterError, match="dependent"):
        remote.connect_group([server.address for server in servers])


def test_keys_are_at_their_servers_and_scans_are_merged(group, store):
    for key in KEYS:
        store[key] = key
    parts = [dict(client.open(store.name)) for client in group.clients]
    for number, part in enumerate(parts):
        assert sorted(part) == [key for key in KEYS if remote.owner_of(key, 3) == number]
    assert list(store) == KEYS and len(store) == len(KEYS) and dict(store.items()) == {key: key for key in KEYS}
    assert list(store.keys(start=b"key010", stop=b"key015")) == KEYS[10:15]
    assert list(store.keys(reverse=True, limit=3)) == KEYS[:-4:-1]
    assert store.find_many([KEYS[3], b"none", KEYS[1]]) == [KEYS[3], None, KEYS[1]]
    del store[KEYS[0]]
    assert KEYS[0] not in store and store.get(KEYS[0]) is None and store.increment(b"sum", 3) == 3
    with pytest.raises(KeyError):
        store[KEYS[0]]


def test_versions_differences_and_changes_of_all(store):
    for key in KEYS:
        store[key] = b"1"
    store.tag("first")
    for key in KEYS[::2]:
        store[key] = b"2"
    store.latest()
    store[KEYS[0]] = b"3"
    store.remove(KEYS[1])
    store.tag("second")
    first, second = store.at(tag="first"), store.at(tag="second")
    assert first[KEYS[0]] == b"1" and second[KEYS[0]] == b"3" and KEYS[1] not in second
    assert dict(store.at(first.versions)) == {key: b"1" for key in KEYS}
    for name in ("first", first, first.versions):
        assert store.at(name).versions == first.versions
        assert store.find(KEYS[0], at=name) == store.get(KEYS[0], at=name) == b"1"
        assert store.find_many([KEYS[0], KEYS[1]], at=name) == [b"1", b"1"]
        assert [row.key for row in store.diff(name, "second")] == sorted([*KEYS[::2], KEYS[1]])
    found = list(store.diff(first, second))
    assert [row.key for row in found] == sorted([*KEYS[::2], KEYS[1]])
    assert found[1].after is None and found[0].before == b"1"
    changes = list(store.changes(first, second))
    assert [change.value for change in changes if change.key == KEYS[0]] == [b"2", b"3"]
    assert len(changes) == len(KEYS[::2]) + 2
    for wrong in (lambda: store.at(1), lambda: store.diff([1], second), lambda: store.watch(after=[1, 2])):
        with pytest.raises((errors.InvalidArgumentError, TypeError)):
            wrong()
    store.compact(second)
    with pytest.raises(errors.VersionExpiredError):
        first[KEYS[0]]


def test_a_watch_tells_what_all_servers_tell_once_and_goes_on(store):
    versions = store.latest().versions
    watch = store.watch(after=list(versions))

    def write():
        for value in (b"1", b"2", b"3"):
            for key in KEYS[:30]:
                store[key] = value
            store.tag()

    writer = threading.Thread(target=write)
    writer.start()
    told = {}
    middle = None
    count = 0
    for server, version, changes in watch:
        assert version > versions[server]
        versions[server] = version
        for change in changes:
            told.setdefault(change.key, []).append(change.value)
            assert remote.owner_of(change.key, 3) == server
            count += 1
        if count == 30:
            middle = list(versions), {key: list(values) for key, values in told.items()}
        if count == 90:
            break
    watch.close()
    writer.join()
    assert told == {key: [b"1", b"2", b"3"] for key in KEYS[:30]}
    if middle is not None:  # another one goes on in the middle
        versions, told = middle
        watch = store.watch(after=versions)
        while sum(len(values) for values in told.values()) < 90:
            for change in next(watch).changes:
                told.setdefault(change.key, []).append(change.value)
        watch.close()
        assert told == {key: [b"1", b"2", b"3"] for key in KEYS[:30]}


def _until(true):
    ends = time.monotonic() + 60
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_watch_is_one_stream_of_each_server_and_ends(store, monkeypatch):
    from icecore.remote._streams import WatchStream

    streams = []
    request = WatchStream.request
    monkeypatch.setattr(WatchStream, "request", lambda self: streams.append(self) or request(self))
    watch = store.watch(prefix=b"key")
    following = []

    def follow():
        following.append(next(watch))
        watch.close()

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    for i in range(60):
        store[b"other%d" % i] = b"1"
    store.tag()
    last = store.tag()
    # What the prefix leaves out moves it on, too.
    _until(lambda: len(streams) == 3 and all(stream.told >= min(last) - 1 for stream in streams))
    store[KEYS[0]] = b"1"
    store.tag()
    reader.join(60)
    assert [(change.key, change.value) for change in following[0].changes] == [(KEYS[0], b"1")]
    assert len(streams) == len(set(streams)) == 3


def test_the_threads_of_a_watch_end_with_it(store):
    def followers():
        return [each for each in threading.enumerate() if each.name == "icecore watch"]

    before = set(followers())
    watch = store.watch()
    store[KEYS[0]] = b"1"
    store.tag()
    assert len(next(watch).changes) == 1
    mine = set(followers()) - before
    assert len(mine) == 3
    watch.close()
    _until(lambda: not any(each.is_alive() for each in mine))


def test_a_watch_of_a_server_that_is_gone_fails(tmp_path):
    options = ("--group-mode", "independent", "--group-name", "g", "--group-size", "1", "--group-index", "0")
    failures = []
    with Server(tmp_path, *options) as server, remote.connect_group([server.address], timeout=2) as connected:
        watch = connected.create("some").watch()

        def follow():
            try:
                next(watch)
            except errors.Error as error:
                failures.append(error)

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        _until(lambda: any(each.name == "icecore watch" for each in threading.enumerate()))
        server.kill()
        reader.join(60)
    assert [type(each) for each in failures] == [errors.UnavailableError]


def test_a_lease_is_kept_by_all_servers(group, store):
    with store.lease(10) as lease:
        for key in KEYS[:20]:
            store.put(key, b"1", lease=lease)
        assert store.keep_alive(lease) <= 10
    assert len(store) == 0
    there = group.clients[2].open(store.name)
    there.grant(10, number=77)
    with pytest.raises(errors.Error):
        store.grant(10, number=77)
    assert group.clients[0].open(store.name).leases() == []
