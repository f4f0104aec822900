"""What /metrics tells of calls that clients have made, in a form that Prometheus' own program finds nothing against."""

import re
import shutil
import subprocess
import time
import urllib.request

import numpy as np
import pytest
from remote_server import Server, needs_server

from icecore import errors

remote = pytest.importorskip("icecore.remote")

pytestmark = needs_server


CALLS = {  # what the fixture calls, and how it ends
    ("Databases.Create", "OK"): 1,
    ("Databases.Create", "ALREADY_EXISTS"): 1,
    ("Store.Put", "OK"): 3,
    ("Store.Get", "OK"): 1,
    ("Store.Scan", "OK"): 1,
    ("Store.Load", "OK"): 1,
    ("Store.Write", "OK"): 1,
    ("Store.Watch", "CANCELLED"): 1,
    ("Versions.Tag", "OK"): 1,
    ("Versions.Resolve", "OK"): 1,
    ("Versions.Resolve", "NOT_FOUND"): 1,
    ("Leases.Grant", "OK"): 1,
    ("Leases.Revoke", "OK"): 1,
    ("Server.Verify", "OK"): 1,
}


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """Of a server after calls of all kinds, some of which were refused."""
    with Server(tmp_path_factory.mktemp("server")) as server:
        with remote.connect(server.address) as client:
            store = client.create("weights", rule="write")
            store[b"key"] = b"value"
            store[b"key"] = b"another"
            store.tag("first")
            assert store.at(tag="first")[b"key"] == b"another"
            assert list(store.items()) == [(b"key", b"another")]
            store.load([b"a", b"b"], np.array([1, 2]))
            next(store.watch(after=0))
            with store.lease(60) as lease:
                store.put(b"leased", b"value", lease=lease)
            store.transaction([remote.absent(b"key")], [remote.put(b"key", b"")], otherwise=[remote.get(b"key")])
            with pytest.raises(errors.DatabaseExistsError):
                client.create("weights")
            with pytest.raises(errors.UnknownTagError):
                store.at(tag="second")
            client.verify("weights")
        end = time.monotonic() + 30  # a call is counted at its end, which a client need not wait for
        told = metrics_of(server)
        while time.monotonic() < end and any(counted(told, *how) < times for how, times in CALLS.items()):
            time.sleep(0.05)
            told = metrics_of(server)
        yield told


def metrics_of(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=60) as answer:
        return answer.read().decode()


def counted(metrics, operation, outcome):
    """How many calls of an operation have ended so."""
    found = [
        int(count)
        for labels, count in re.findall(r"^icecore_calls_total\{(.*)\} (\d+)$", metrics, re.MULTILINE)
        if {'door="grpc"', f'operation="{operation}"', f'outcome="{outcome}"'} <= set(labels.split(","))
    ]
    assert len(found) <= 1
    return sum(found)


def test_prometheus_finds_nothing_against_them(metrics):
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    judged = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True, text=True, check=False)
    assert (judged.returncode, judged.stdout, judged.stderr) == (0, "", "")


def test_calls_are_counted_by_operation_and_outcome(metrics):
    assert {how: counted(metrics, *how) for how in CALLS} == CALLS


def test_each_call_has_its_time(metrics):
    times = re.findall(r'^icecore_call_seconds_count\{door="grpc",operation="([^"]*)"\} (\d+)$', metrics, re.MULTILINE)
    for operation in {operation for operation, _ in CALLS}:
        calls = sum(count for (called, _), count in CALLS.items() if called == operation)
        assert dict(times)[operation] == str(calls)


def test_the_database_is_told(metrics):
    assert re.search(r'^icecore_database\{database="weights",what="keys"\} ', metrics, re.MULTILINE)
