"""icecore.remote: a server's databases from another process, over connections that break."""

import re
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from remote_server import Proxy, Server, needs_server

import icecore
from icecore import errors

remote = pytest.importorskip("icecore.remote")
grpc = pytest.importorskip("grpc")
from icecore.remote import _streams  # noqa: E402

pytestmark = needs_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def client(server):
    with remote.connect(server.address) as connected:
        yield connected


@pytest.fixture
def name(request):
    return request.node.name.replace("[", ".").replace("]", "")[:200]


@pytest.fixture
def store(client, name):
    yield client.create(name, rule="write")
    client.drop(name)


def test_a_store_is_a_mapping(store):
    store[b"b"] = b"2"
    store["a"] = "1"
    store[b"c"] = bytearray(b"3")
    assert store[b"a"] == b"1" and store.get(b"x") is None and b"c" in store and b"x" not in store
    assert list(store) == [b"a", b"b", b"c"] and list(reversed(store)) == [b"c", b"b", b"a"]
    assert len(store) == 3 and bool(store) and dict(store) == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert store == {b"a": b"1", b"b": b"2", b"c": b"3"}
    assert list(store.items(start="b")) == [(b"b", b"2"), (b"c", b"3")]
    assert list(store.keys(stop="c", reverse=True, limit=1)) == [b"b"]
    assert list(store.values(prefix=b"c")) == [b"3"]
    assert dict(store[b"a":b"c"]) == {b"a": b"1", b"b": b"2"}
    assert store.setdefault(b"a", b"9") == b"1" and store.pop(b"b") == b"2" and store.pop(b"b", None) is None
    del store[b"c"]
    for call in (lambda: store[b"b"], lambda: store.pop(b"b"), lambda: store.__delitem__(b"c")):
        with pytest.raises(KeyError):
            call()
    store.update({b"x": b"1", b"y": b"2"})
    assert store.find_many([b"y", b"none", b"x"], default=b"-") == [b"2", b"-", b"1"]
    store.clear()
    assert not store and len(store) == 0


def test_versions_stay(store):
    first = store.put(b"a", b"1")
    assert store.tag("one", "a note") > first
    store[b"a"] = b"2"
    removed = store.remove(b"a")
    assert store.remove(b"a") is None
    assert store.at(first)[b"a"] == b"1" and store.at(tag="one")[b"a"] == b"1" and b"a" not in store.latest()
    assert [(t.name, t.note) for t in store.tags()] == [("one", "a note")]
    store.tag("measured", metrics={"loss": 0.5})
    assert store.find_tag("measured").metrics == {"loss": 0.5}
    tag = store.find_tag("one")
    for name in (tag.version, "one", tag, store.at("one"), tag.time):
        assert store.at(name).version == store.find_tag(name).version == tag.version
        assert store.find(b"a", at=name) == store.get(b"a", at=name) == b"1"
        assert store.find_many([b"a", b"z"], at=name) == [b"1", None]
        assert list(store.diff(name, removed)) == [(b"a", b"1", None)]
        assert next(store.changes(name)).value == b"2"
    for wrong in (1.5, True, b"one", object()):
        with pytest.raises(TypeError, match="a Tag, a Snapshot, or a datetime"):
            store.find(b"a", at=wrong)
    assert [change.value for change in store.history(b"a")] == [None, b"2", b"1"]
    assert [change.value for change in store.at(first).history(b"a")] == [b"1"]
    assert list(store.diff(first, removed)) == [(b"a", b"1", None)]
    told = [(c.version, c.key, c.value, c.before) for c in store.changes(first, before=True)]
    assert told == [(first + 2, b"a", b"2", b"1"), (removed, b"a", None, b"2")]
    store.compact(removed)
    with pytest.raises(errors.VersionExpiredError):
        store.at(first)
    with pytest.raises(errors.VersionNotClosedError):
        store.at(removed + 1000)
    with pytest.raises(errors.UnknownTagError):
        store.at(tag="two")
    with pytest.raises(errors.TagExistsError):
        store.tag("one")


def test_what_has_a_type_and_a_shape_is_no_value_of_bytes(store):
    for wrong in (np.arange(3), np.zeros((2, 2), np.uint8), np.float64(1), np.array(["2020-01-01"], "datetime64[D]")):
        for write in (
            lambda value: store.put("k", value),
            lambda value: store.insert_new("k", value),
            lambda value: store.transaction((), [remote.put("k", value)]),
            lambda value: store.load(["k"], [value]),
            lambda value: store.load({"k": value}),
        ):
            with pytest.raises(TypeError, match="would lose its type and shape"):
                write(wrong)
    store.put("k", np.frombuffer(b"v", np.uint8))
    assert store["k"] == b"v"


def test_parts_of_values_change(store):
    assert store.append(b"log", b"one;") == 4 and store.append(b"log", b"two;") == 8
    assert store.update_part(b"log", 0, b"ONE") == 8 and store[b"log"] == b"ONE;two;"
    assert store.increment(b"n") == 1 and store.increment(b"n", -11) == -10 and store[b"n"] == b"-10"
    with pytest.raises(ValueError, match="no decimal number"):
        store.increment(b"log")
    with pytest.raises(ValueError, match="outside the value"):
        store.update_part(b"log", 7, b"xx")
    with pytest.raises(KeyError):
        store.update_part(b"none", 0, b"x")


def test_transactions_take_one_of_two_lists(store):
    taking = {"conditions": [remote.absent(b"lock")], "then": [remote.put(b"lock", b"me")]}
    assert store.transaction(**taking, otherwise=[remote.get(b"lock")]).succeeded
    outcome = store.transaction(**taking, otherwise=[remote.get(b"lock")])
    assert not outcome.succeeded and outcome.results[0].rows[0].value == b"me"
    held = store.transaction(then=[remote.put(b"lock", b"you", previous=True), remote.get_range(b"")])
    assert held.results[0].previous.value == b"me" and held.results[1].rows[0].value == b"you"
    assert store.insert_new(b"lock", b"x") is None
    assert store.replace(b"lock", b"x", held.version + 1) is None
    assert store.replace(b"lock", b"x", held.version) == held.version + 1
    with pytest.raises(errors.InvalidArgumentError, match="same key"):
        store.transaction(then=[remote.put(b"a", b""), remote.remove(b"a")])
    with store.batch() as b:
        b[b"a"] = b"1"
        b[b"a"] = b"2"
        del b[b"lock"]
    assert b.applied and b.version == held.version + 2 and dict(store) == {b"a": b"2"}
    with store.batch() as b:
        b.insert_new(b"a", b"3")
        b[b"c"] = b"3"
    assert not b.applied and b"c" not in store
    with pytest.raises(RuntimeError):
        with store.batch() as b:
            b[b"d"] = b"1"
            raise RuntimeError
    assert b"d" not in store


def test_a_watch_tells_whole_versions(store):
    last = store.put(b"a", b"0")
    watch = store.watch(after=last - 1)
    assert next(watch) == (last, [remote.KeyChange(b"a", last, b"0", None)])

    def write():
        with store.batch() as b:
            for i in range(100):
                b[b"%03d" % i] = b"v"
        del store[b"050"]

    writer = threading.Thread(target=write)
    writer.start()
    version, changes = next(watch)
    assert version == last + 1 and [c.key for c in changes] == [b"%03d" % i for i in range(100)]
    version, changes = next(watch)
    assert version == last + 2 and changes == [remote.KeyChange(b"050", version, None, None)]
    writer.join()
    watch.close()
    with pytest.raises(errors.DeadlineExceededError):
        next(store.watch(timeout=0.2))


def test_columns_are_loaded(store):
    keys = np.arange(200_000, dtype=">u8")
    values = np.random.default_rng(1).random((200_000, 4))
    assert store.load(keys, values) == 200_000
    assert len(store) == 200_000
    for i, (key, value) in enumerate(store.items()):
        assert key == i.to_bytes(8, "big") and value == values[i].tobytes()
    assert store.load({b"x": b"new", (5).to_bytes(8, "big"): b"new"}, keep=True) == 1
    assert store[(5).to_bytes(8, "big")] == values[5].tobytes()
    assert store.load([(b"x", b"1"), (b"y", b"2")]) == 2


def test_leases_end_with_their_keys(store):
    with store.lease(2) as lease:
        store.put(b"here", b"1", lease=lease)
        time.sleep(2.5)  # kept alive
        assert store[b"here"] == b"1" and store.lease_info(lease).keys == [b"here"] and store.leases() == [lease]
    assert b"here" not in store and store.leases() == []
    with pytest.raises(errors.NoSuchLeaseError):
        store.put(b"here", b"1", lease=12345)
    with pytest.raises(errors.NoSuchLeaseError):
        store.keep_alive(12345)


def test_databases_are_made_and_dropped(client, store, name):
    first = store.put(b"a", b"1")
    store[b"a"] = b"2"
    assert client.copy(name, name + ".copy", at=first)[b"a"] == b"1"
    assert {d.name for d in client.databases()} >= {name, name + ".copy"}
    assert client.open(name + ".copy").alter(quota_bytes=1 << 30).quota_bytes == 1 << 30
    with pytest.raises(errors.DatabaseExistsError):
        client.create(name)
    client.drop(name + ".copy")
    with pytest.raises(errors.DeniedError):
        client.open(name + ".copy")
    assert client.verify(name).ok and store.status().keys == 1 and client.status().identity
    with pytest.raises(ValueError, match="is not one of"):
        client.create("bad", rule="sometimes")


# ---- Connections that break ----


@pytest.fixture
def proxy(server):
    with Proxy(server.port) as handing_on:
        yield handing_on


@pytest.fixture
def proxied(proxy, store):
    with remote.connect(proxy.address) as connected:
        yield connected.open(store.name)


def test_reads_and_puts_are_repeated(proxy, proxied, store):
    for i in range(5):
        proxy.swallow_replies()
        proxied[b"a"] = b"%d" % i
        proxy.swallow_replies()
        assert proxied[b"a"] == b"%d" % i
    assert proxy.breaks == 10 and store[b"a"] == b"4"


def test_what_cannot_be_repeated_says_that_its_outcome_is_unknown(proxy, proxied, store):
    proxied.append(b"log", b"x")
    calls = [
        lambda: proxied.append(b"log", b"x"),
        lambda: proxied.increment(b"n"),
        lambda: proxied.insert_new(b"new", b"1"),
        lambda: proxied.pop(b"log"),
        lambda: proxied.transaction([remote.present(b"log")], [remote.put(b"log", b"y")]),
        lambda: proxied.tag(),
    ]
    for call in calls:
        proxy.swallow_replies()
        with pytest.raises(errors.OutcomeUnknownError):
            call()
        proxied.get(b"")  # connects again
    assert store[b"n"] == b"1" and b"log" not in store and store[b"new"] == b"1"  # each was done once


class _Cuts(grpc.GenericRpcHandler):
    """A server that cuts the first call of each method, as one that stops does, and answers the others with nothing."""

    def __init__(self):
        self.calls = Counter()

    def service(self, details):
        unary = grpc.unary_unary_rpc_method_handler(lambda _, context: self._answer(details.method, context))
        scan = grpc.unary_stream_rpc_method_handler(lambda _, context: iter([self._answer(details.method, context)]))
        return scan if details.method.endswith("/Scan") else unary

    def _answer(self, method, context):
        self.calls[method.rsplit("/")[-1]] += 1
        if self.calls[method.rsplit("/")[-1]] == 1:
            context.abort(grpc.StatusCode.CANCELLED, "")
        return b""


def test_a_call_that_the_server_cut_is_one_whose_connection_broke():
    cuts = _Cuts()
    serves = grpc.server(ThreadPoolExecutor(2), [cuts])
    port = serves.add_insecure_port("127.0.0.1:0")
    serves.start()
    with remote.connect(f"icecore://127.0.0.1:{port}") as client:
        store = client.open("any")
        store.put(b"a", b"1")
        assert store.find(b"a") is None and list(store.items()) == []
        with pytest.raises(errors.OutcomeUnknownError):
            store.append(b"a", b"1")
    assert [cuts.calls[method] for method in ("Put", "Get", "Scan", "Write")] == [2, 2, 2, 1]
    serves.stop(None)


def test_a_connection_is_made_over_a_slow_network(proxy, proxied, store):
    store[b"a"] = b"1"
    proxy.delay = 1.5
    proxy.cut()
    assert proxied[b"a"] == b"1"


def test_a_named_tag_is_made_once(proxy, proxied, store):
    proxy.swallow_replies()
    version = proxied.tag("named", "note")
    assert store.find_tag("named").version == version and len(store.tags()) == 1
    with pytest.raises(errors.TagExistsError):
        proxied.tag("named", "note")


def test_a_scan_goes_on_at_its_version(proxy, proxied, store):
    store.load({b"%06d" % i: b"v" * 100 for i in range(30_000)})
    then = proxied.latest()
    store.load({b"%06d" % i: b"later" for i in range(30_000)})
    proxy.cut_after(500_000)
    assert [k for k, v in then.items() if v == b"v" * 100] == [b"%06d" % i for i in range(30_000)]
    assert list(then.keys(reverse=True)) == [b"%06d" % i for i in reversed(range(30_000))]
    changed = [c.key for c in proxied.diff(then)]
    assert changed == [b"%06d" % i for i in range(30_000)]
    assert proxy.breaks > 5


def test_changes_and_histories_go_on_where_they_were(proxy, proxied, store):
    for i in range(20):
        store.load({b"%04d" % k: b"%06d" % i * 20 for k in range(500)})
    proxy.cut_after(300_000)
    told = [(c.key, c.value[:6]) for c in proxied.changes(0)]
    assert told == [(b"%04d" % k, b"%06d" % i) for i in range(20) for k in range(500)]
    for i in range(1500):
        store.put(b"one", b"%d" % i * 150)
    assert [c.value for c in proxied.history(b"one")] == [b"%d" % i * 150 for i in reversed(range(1500))]
    assert proxy.breaks > 3


def test_a_watch_goes_on_over_broken_connections(proxy, proxied, store):
    watch = proxied.watch(after=0)
    told = []
    for i in range(200):
        store[b"%d" % (i % 7)] = b"%d" % i
        if i % 40 == 20:
            proxy.cut()
        told += [c.value for c in next(watch).changes]
    assert told == [b"%d" % i for i in range(200)]


@pytest.fixture
def progress_often(monkeypatch):
    monkeypatch.setattr(_streams, "PROGRESS_MS", 100)


def test_a_quiet_watch_goes_on_behind_what_it_was_told(proxy, store, progress_often):
    with remote.connect(proxy.address, timeout=0.5) as client:
        watch = client.open(store.name).watch(prefix=b"watched")
        with ThreadPoolExecutor() as pool:
            first = pool.submit(next, watch)
            time.sleep(0.7)  # quiet for longer than the client may be without a connection
            version = store.put(b"other", b"")
            store.compact(version)
            time.sleep(0.7)  # until it was told that the version is not for it
            proxy.cut()
            store[b"watched"] = b"1"
            assert [c.value for c in first.result(60).changes] == [b"1"]
        watch.close()


def test_calls_end_at_their_deadline(tmp_path):
    with Server(tmp_path) as server, remote.connect(server.address) as client:
        store = client.create("db")
        server.pause()
        began = time.monotonic()
        for call in (lambda: store.get(b"a"), lambda: store.append(b"a", b"")):
            store._connection.timeout = 0.3
            with pytest.raises(errors.DeadlineExceededError):
                call()
        assert time.monotonic() - began < 10


def test_a_client_waits_for_a_server_that_restarts(tmp_path):
    with Server(tmp_path) as server, remote.connect(server.address) as client:
        store = client.create("db", rule="write")
        store[b"a"] = b"1"
        store.sync()
        server.kill()
        threading.Timer(0.5, server.start).start()
        assert store[b"a"] == b"1"
        assert store.append(b"a", b"2") == 2
        client.close()
        with pytest.raises(errors.ClosedError):
            store[b"a"]


def test_nobody_there_is_an_error():
    with pytest.raises(errors.UnavailableError):
        remote.connect("icecore://127.0.0.1:1", timeout=0.5)
    for address in ("http://x", "icecore://", "icecore://h/path"):
        with pytest.raises(ValueError, match="no address"):
            remote.connect(address)


def test_users_log_in_and_again_after_a_restart(tmp_path):
    password = tmp_path / "password"
    password.write_text("a long password")
    options = ("--access-users", "true", "--access-initial-administrator-password-file", str(password))
    with Server(tmp_path, *options) as server:
        with pytest.raises(errors.UnauthenticatedError):
            remote.connect(server.address)
        administrator = _administrator(server)
        with pytest.raises(errors.UnauthenticatedError):
            remote.connect(server.address, user=administrator, password="wrong")
        with remote.connect(server.address, user=administrator, password="a long password") as root:
            store = root.create("db", rule="write")
            store[b"m"] = b"1"
            root.add_user("ann", "ann's password")
            root.set_role("reader", [remote.Permission("db", b"m", b"n", read=True)])
            root.grant("ann", "reader")
            assert {u.name for u in root.users()} == {administrator, "ann"}
            assert root.roles()["reader"] == [remote.Permission("db", b"m", b"n", read=True)]
            with remote.connect(server.address, user="ann", password="ann's password") as ann:
                theirs = ann.open("db")
                assert theirs[b"m"] == b"1"
                with pytest.raises(errors.DeniedError):
                    theirs[b"a"]
                with pytest.raises(errors.DeniedError):
                    theirs[b"m"] = b"2"
            store.sync()
            server.stop()
            server.start()  # tokens ended with the server
            assert store[b"m"] == b"1"


def _administrator(server):
    for user in ("administrator", "root"):
        try:
            with remote.connect(server.address, user=user, password="a long password"):
                return user
        except errors.UnauthenticatedError:
            pass
    raise AssertionError("no administrator")


def test_errors_are_those_of_icecore(store):
    with pytest.raises(icecore.KeyTooLongError):
        store[b"k" * 70_000] = b""
    with pytest.raises(icecore.errors.LimitReachedError):
        store[b"k"] = b"v" * (65 << 20)


def test_the_examples_of_the_documentation_run(tmp_path):
    page = (Path(__file__).parents[2] / "docs/python.md").read_text().partition("\n## Servers")[2]
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    with Server(tmp_path) as server:
        names = {}
        for block in blocks:
            exec(compile(block.replace("icecore://localhost:7480", server.address), "docs/python.md", "exec"), names)


def test_all_that_is_public_is_documented():
    for name in remote.__all__:
        assert getattr(remote, name).__doc__, name


def test_programs_type_check(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, "-m", "mypy", "--strict", "--warn-unused-ignores", "--cache-dir", str(tmp_path), program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


PROGRAM = """
    from typing import assert_type
    import numpy as np
    from icecore import remote
    from icecore.remote import aio

    with remote.connect("icecore://h", user="u", password="p", tls=remote.Tls(authority="ca.pem"), timeout=5) as client:
        store = client.create("db", rule="write")
        assert_type(store, remote.Store)
        store["k"] = np.frombuffer(b"v", np.uint8)
        assert_type(store.put(b"k", b"v", timeout=1.0), int)
        assert_type(store.find("k"), bytes | None)
        assert_type(store.at(tag="t"), remote.Snapshot)
        for key, value in store.items(prefix="a", limit=3):
            assert_type(key, bytes)
            assert_type(value, bytes)
        for version, changes in store.watch(after=3):
            assert_type(version, int)
            assert_type(changes, list[remote.KeyChange])
        assert_type(store.transaction([remote.absent("k")], [remote.increment("n")]).results[0].number, int)
        assert_type(store.remove(b"k"), int | None)
        with store.batch() as b:
            b["x"] = b"y"
        assert_type(store.load(np.arange(3), [b"a", b"b", b"c"]), int)
        with store.lease(10) as lease:
            assert_type(lease, int)
        store.tag(5)  # type: ignore[arg-type]
        store.nothing  # type: ignore[attr-defined]

    async def main() -> None:
        async with await aio.connect("icecore://h") as client:
            store = await client.open("db")
            assert_type(await store.put(b"k", b"v"), int)
            async for key, value in store.items():
                assert_type(key, bytes)
            async for version, changes in store.watch(after=3):
                assert_type(changes, list[remote.KeyChange])
        async with await aio.connect_group(["icecore://h", "icecore://i"]) as group:
            stores = await group.open("db")
            assert_type(await stores.tag("t"), list[int])
            assert_type(await stores.at(tag="t"), aio.GroupSnapshot)
            assert_type(stores.server(b"k"), aio.Store)
            async for key, value in stores.items():
                assert_type(value, bytes)
            async for server, version, changes in stores.watch(after=[3, 4]):
                assert_type(changes, list[remote.KeyChange])
            async with stores.lease(10) as lease:
                assert_type(lease, int)
"""


def test_rows_are_loaded_in_requests_that_the_server_takes(tmp_path):
    rows = {i.to_bytes(8, "big"): bytes(i % 100) for i in range(5_000)}
    options = ["--limits-request-bytes", "64 KiB", "--limits-output-bytes", "64 KiB"]
    with Server(tmp_path, *options) as server, remote.connect(server.address) as client:
        store = client.create("db")
        with pytest.raises(errors.LimitReachedError, match="request_bytes|larger than max"):
            store.load(rows)
        assert len(store) == 0
        assert store.load(rows, message_bytes=64 << 10) == len(rows)
        assert dict(store.items()) == rows
        for wrong in (0, -1):
            with pytest.raises(ValueError, match=f"message_bytes is {wrong}"):
                store.load(rows, message_bytes=wrong)
        long = {b"a": b"1", b"b": bytes(100_000), b"c": b"3"}
        with pytest.raises(errors.LimitReachedError):
            store.load(long, message_bytes=64 << 10)
        assert store.get(b"a") == b"1"
        assert b"c" not in store
