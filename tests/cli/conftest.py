"""Fixtures for the tests of the command line.

The command is the program that the environment variable ICECORE_CLI names; ctest sets it.
"""

import base64
import json
import os
import random
import subprocess
import time
import zlib
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]


def command():
    program = os.environ.get("ICECORE_CLI")
    if not program:
        pytest.exit("ICECORE_CLI must name the icecore program to test", returncode=2)
    return program


def run(*arguments, stdin=b"", code=0):
    """Runs icecore and checks its exit code; None accepts any. Arguments may be bytes or str."""
    done = subprocess.run([command(), *map(os.fsencode, arguments)], input=stdin, capture_output=True, timeout=250)
    if code is not None:
        assert (
            done.returncode == code
        ), f"{arguments}: exit code {done.returncode}\n{done.stderr.decode(errors='replace')}"
    if done.returncode == 0:
        assert done.stderr == b"", done.stderr
    else:
        # A failure says what and where in one line, and nothing of our insides.
        assert b"terminate called" not in done.stderr
    return done


def lines(*arguments, **options):
    """Its output as JSON, one object a line."""
    return [json.loads(line) for line in run(*arguments, **options).stdout.splitlines()]


def to_bytes(member):
    """A key or value as the JSON output has it."""
    return base64.b64decode(member["base64"], validate=True) if isinstance(member, dict) else member.encode()


def items(store, *arguments):
    return [(to_bytes(i["key"]), to_bytes(i["value"])) for i in lines("scan", store, "-o", "json", *arguments)]


def history(store, key, *arguments):
    """[(version, value or None)], newest first."""
    found = lines("history", "--hex", store, key.hex(), "-o", "json", *arguments)
    return [(c["version"], bytes.fromhex(c["value"]) if "value" in c else None) for c in found]


def as_member(data):
    """How a dump written by hand may show bytes."""
    return {"base64": base64.b64encode(data).decode()}


def dump_of(clock, contents):
    """A dump as bytes: `contents` are its lines between the first and the last, as objects."""
    records = sum("key" in line for line in contents)
    tags = sum("tag" in line for line in contents)
    body = [{"icecore_dump": 1, "clock": clock, "records": records, "tags": tags}, *contents]
    text = "".join(json.dumps(line) + "\n" for line in body).encode()
    end = {"end": True, "records": records, "tags": tags, "crc32": f"{zlib.crc32(text):08x}"}
    return text + json.dumps(end).encode() + b"\n"


def insert(version, key, value):
    return {"version": version, "key": as_member(key), "value": as_member(value)}


def remove(version, key):
    return {"version": version, "key": as_member(key), "removed": True}


def tag(version, name, time_ns=0, note=""):
    return {"version": version, "tag": name, "time_ns": time_ns, "note": note}


def filled(store, pairs, clock=2, tags=()):
    """Loads a store with records of version 1."""
    contents = [insert(1, key, value) for key, value in sorted(pairs.items())]
    run("load", store, stdin=dump_of(clock, contents + list(tags)))
    return store


def wait_for(path):
    """Until another process has made a file."""
    end = time.monotonic() + 30
    while not os.path.exists(path):
        assert time.monotonic() < end, f"{path} is not made"
        time.sleep(0.001)


@pytest.fixture
def store(tmp_path):
    """Where a test may make a store."""
    return str(tmp_path / "store.ice")


@pytest.fixture
def rng(request):
    """A source of random numbers that is the same each time a test runs."""
    return random.Random(request.node.name)
