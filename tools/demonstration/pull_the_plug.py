#!/usr/bin/env python3
"""Kills a writer again and again, and compares the store with what the writer had acknowledged.

    tools/demonstration/pull_the_plug.py FOLDER --icecore PROGRAM --library libicecore.so [--rounds 5] [--seed N]

Each round starts two processes. The *writer* inserts values of up to 256 KiB, applies batches and makes tags in
FOLDER/plug.ice; each time a call has returned, it acknowledges it. The *witness* notes the acknowledgements in
FOLDER/acknowledged.txt. At a random instant the writer gets SIGKILL. Then `icecore scan` reads the store: its content must
be that of the acknowledged writes, exactly, or of these and the one write that was under way, as a whole. The last tag must
show what it showed when it was acknowledged, and `icecore verify` must find no damage. Exit code 1 if anything differs.

SIGKILL ends a process, not the machine: docs/reliability.md says how power cuts are tested.
"""

import argparse
import base64
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import c_interface

KEYS, LARGE_KEYS, LARGE_BYTES = 2000, 4, 256 << 10
TAG_EVERY, BATCH_EVERY, LARGE_EVERY = 150, 20, 70


class CannotJudge(Exception):
    pass


def write_number(seed, number):
    """The write of this number: the name of a tag, or a mapping of keys and values."""
    rng = random.Random(f"{seed}:{number}")
    if number % TAG_EVERY == 0:
        return f"tag-{number}"
    if number % LARGE_EVERY == 0:
        return {f"large/{rng.randrange(LARGE_KEYS)}": f"{number:08}".encode() * (LARGE_BYTES // 8)}
    count = 25 if number % BATCH_EVERY == 0 else 1
    return {f"key/{rng.randrange(KEYS):04}": f"{number}:{place} ".encode() * rng.randrange(1, 60) for place in range(count)}


def digest(value):
    return hashlib.sha256(value).hexdigest()[:24]


def acknowledgement(number, write):
    return f"{number} {json.dumps(write if isinstance(write, str) else {key: digest(value) for key, value in write.items()})}\n"


# ---- The two processes -------------------------------------------------------------------------------------------------


def writer(path, seed, first):
    """Writes until it is killed. One acknowledgement is one write to a pipe, which is there as a whole or not at all."""
    store = c_interface.Store(path)
    number = first
    while True:
        write = write_number(seed, number)
        if isinstance(write, str):
            store.tag(write)
        elif len(write) == 1:
            store.insert(*next(iter(write.items())))
        else:
            store.apply(write)
        os.write(1, acknowledgement(number, write).encode())
        number += 1


def witness(notes):
    with open(notes, "ab", buffering=0) as file:
        while part := os.read(0, 1 << 16):
            file.write(part)


# ---- The judge ---------------------------------------------------------------------------------------------------------


class Content:
    """What a store holds, as the acknowledgements say: digests by key, and the same for the last tag."""

    def __init__(self):
        self.values, self.tag, self.tagged = {}, None, {}

    def add(self, write):
        if isinstance(write, str):
            self.tag, self.tagged = write, dict(self.values)
        else:
            self.values.update(write)


def output_of(command, codes=(0,)):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode not in codes:  # what is said of a code that is an answer, such as of a key that is not there yet, is for nobody
        raise CannotJudge(f"{' '.join(map(str, command))} failed with exit code {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def read_store(icecore, path, tag=None):
    at = ["--at", "tag:" + tag] if tag else []
    items = map(json.loads, output_of([icecore, "scan", path, *at, "-o", "json"]).splitlines())
    return {item["key"]: digest(base64.b64decode(item["value"]["base64"]) if isinstance(item["value"], dict) else item["value"].encode())
            for item in items}


def judge(found, content, in_flight):
    """(what is wrong in words or None, whether the write under way is there)."""
    if found == content.values:
        return None, False
    after = {**content.values, **({} if isinstance(in_flight, str) else in_flight)}
    if found == after:
        return None, True
    lost = [key for key, value in content.values.items() if found.get(key) not in (value, after[key])]
    if lost:
        return f"{len(lost)} acknowledged values are not there, such as {lost[0]}", False
    return f"{len(found.keys() - after.keys())} keys are there that nobody wrote, or a batch is there in part", False


def tag_names(icecore, path):
    return {json.loads(line)["name"] for line in output_of([icecore, "log", path, "-o", "json"], codes=(0, 1)).splitlines()}


def kill_once(arguments, first, chooser):
    """Runs the writer and the witness, and kills the writer in the middle."""
    again = [sys.executable, "-B", __file__, arguments.folder, "--library", arguments.library, "--icecore", arguments.icecore, "--seed", str(arguments.seed)]
    reading, writing = os.pipe()
    noting = subprocess.Popen([*again, "--as", "witness"], stdin=reading)
    os.close(reading)
    before = arguments.notes.stat().st_size
    writes = subprocess.Popen([*again, "--as", "writer", "--first", str(first)], stdout=writing)
    os.close(writing)
    while arguments.notes.stat().st_size == before and writes.poll() is None:
        time.sleep(0.01)
    time.sleep(chooser.uniform(0.3, 0.9))
    writes.send_signal(signal.SIGKILL)
    if writes.wait() != -signal.SIGKILL:
        raise CannotJudge(f"the writer ended by itself, with exit code {writes.returncode}")
    if noting.wait() != 0:
        raise CannotJudge("the witness failed")


def run(arguments):
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    path, arguments.notes = folder / "plug.ice", folder / "acknowledged.txt"
    path.unlink(missing_ok=True)
    arguments.notes.write_bytes(b"")
    chooser = random.Random(arguments.seed)
    content, number, seen = Content(), 1, 0
    print("  kill   acknowledged    values read   last tag        the write under way    back after")
    for kill in range(1, arguments.rounds + 1):
        kill_once(arguments, number, chooser)
        with open(arguments.notes, encoding="ascii") as file:
            lines = file.read().splitlines()
        acknowledged = len(lines) - seen
        for line in lines[seen:]:
            told, write = line.split(" ", 1)
            if int(told) != number:
                raise CannotJudge(f"acknowledgement {told} where {number} was expected")
            content.add(json.loads(write))
            number += 1
        seen = len(lines)
        in_flight = write_number(arguments.seed, number)
        noted = json.loads(acknowledgement(number, in_flight).split(" ", 1)[1])
        start = time.monotonic()
        output_of([arguments.icecore, "get", path, "key/0000"], codes=(0, 1))
        back_s = time.monotonic() - start
        found = read_store(arguments.icecore, path)
        problem, there = judge(found, content, noted)
        if content.tag and not problem and read_store(arguments.icecore, path, content.tag) != content.tagged:
            problem = f"{content.tag} does not show what it showed when it was acknowledged"
        if not problem and isinstance(noted, str):
            there = noted in tag_names(arguments.icecore, path)
        if problem:
            print(f"pull_the_plug: kill {kill}: {problem} (--seed {arguments.seed}; {path}, {arguments.notes})", file=sys.stderr)
            return 1
        if there:
            content.add(noted)
            number += 1
        print(f"  {kill:4}   {acknowledged:12,}   {len(found):12,}   {content.tag or 'none':<14}  {'is there, whole' if there else 'left no trace':<19}    {back_s * 1e3:.0f} ms")
    verdict = output_of([arguments.icecore, "verify", path]).decode().strip().splitlines()[-1]
    print(f"  icecore verify: {verdict}")
    print(f"  {seen:,} writes acknowledged before {arguments.rounds} kills: all are there, and nothing else (--seed {arguments.seed})")
    return 0


def main():
    parser = argparse.ArgumentParser(description="Kills a writer and compares the store with what it had acknowledged.")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--icecore", required=True, metavar="PROGRAM")
    parser.add_argument("--library", required=True, metavar="FILE", help="libicecore.so")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="how many kills (default: 5)")
    parser.add_argument("--seed", type=int, help="decides what is written and when it is killed (default: a different one each time)")
    parser.add_argument("--as", dest="role", choices=("writer", "witness"), help="be one of the two processes")
    parser.add_argument("--first", type=int, help="of the writer: the number of its first write")
    arguments = parser.parse_args()
    if arguments.role == "witness":
        return witness(Path(arguments.folder) / "acknowledged.txt")
    c_interface.use_library(arguments.library)
    if arguments.seed is None:
        arguments.seed = random.randrange(10**9)
    if arguments.role == "writer":
        return writer(Path(arguments.folder) / "plug.ice", arguments.seed, arguments.first)
    return run(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CannotJudge, c_interface.StoreError, OSError) as problem:
        print(f"pull_the_plug: {problem}", file=sys.stderr)
        sys.exit(2)
