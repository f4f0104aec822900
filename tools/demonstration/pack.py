#!/usr/bin/env python3
"""Packs the history of a git repository, and reads it while another process loads what came later.

    tools/demonstration/pack.py STORE REPOSITORY --icecore PROGRAM [--snapshots 3] [--seed N]

The older commits are loaded into a new store, STORE. `icecore compact --compress` packs it. Then a second process goes on
with the newer commits. Snapshots that were drawn at random are compared with git before the packing, after it, again and
again beside the process that loads, and at the end: each path and each byte. The bytes are the blocks that the file has on
its device. Exit code 1 if anything differs, 2 if it cannot compare.

So that even a short history takes long enough to be read on the way, the loading process is halted most of the time.
"""

import argparse
import contextlib
import fcntl
import json
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

CHECKER = Path(__file__).resolve().parents[1] / "check-git-snapshots"
OLDER_MAX, NEWER_MAX = 4000, 300  # of a long history, its beginning: enough to see, and done in seconds
RUNS_S, HALTS_S = 0.002, 0.04
COMPARED_BESIDE = 2


class CannotCompare(Exception):
    pass


class Differs(Exception):
    pass


def output_of(*command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    except OSError as problem:
        raise CannotCompare(f"{command[0]}: {problem.strerror}") from None
    if done.returncode != 0:
        raise CannotCompare(f"{' '.join(map(str, command))} failed with exit code {done.returncode}")
    return done.stdout.decode()


def divided(commits):
    """(older, newer): at most a fourth is newer, and at least one of two."""
    commits = commits[: OLDER_MAX + NEWER_MAX]
    newer = min(NEWER_MAX, (len(commits) + 3) // 4) if len(commits) > 1 else 0
    return commits[: len(commits) - newer], commits[len(commits) - newer :]


def is_written(path):
    """Whether a process has this store open for writing: it holds a lock that keeps even readers' locks out."""
    question = struct.pack("hhqqi", fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    with open(path, "rb") as file:
        return struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_OFD_GETLK, question))[0] == fcntl.F_WRLCK


class Packing:
    def __init__(self, arguments):
        self.icecore, self.store, self.repository = arguments.icecore, arguments.store, arguments.repository
        chain = output_of("git", "-C", self.repository, "log", "--first-parent", "--reverse", "--format=%H", "HEAD").split()
        self.older, self.newer = divided(chain)
        self.drawn = random.Random(arguments.seed).sample(self.older, min(arguments.snapshots, len(self.older)))

    def load_command(self, last):
        return [self.icecore, "load", self.store, "--git", self.repository, "--ref", last, "-o", "json"]

    def bytes_on_device(self):
        return os.stat(self.store).st_blocks * 512

    def told(self, step, note=""):
        print(f"  {step:<46} {self.bytes_on_device() / 1e6:10,.1f} MB   {note}".rstrip(), flush=True)

    def newest_loaded(self):
        return json.loads(output_of(self.icecore, "log", self.store, "--limit", "1", "-o", "json"))["name"]

    def load_older(self):
        said = json.loads(output_of(*self.load_command(self.older[-1]), "--index", "persistent"))
        self.told(f"{len(self.older):,} commits loaded", f"git has {said['git_packed_bytes'] / 1e6:,.1f} MB, packed")

    def compare(self, when, *more):
        """The drawn snapshots, and `more` ones, with git."""
        done = subprocess.run([sys.executable, "-B", CHECKER, self.store, self.repository, "--icecore", self.icecore, "--at", *self.drawn, *more],
                              stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode == 1:
            raise Differs(f"{when}: {done.stdout.strip()}")
        if done.returncode != 0:
            raise CannotCompare(f"{when}: {CHECKER.name} failed with exit code {done.returncode}")
        commits = int(done.stdout.split()[0])
        self.told(f"{len(self.drawn) + len(more)} snapshots {when}", f"of {commits:,} commits: all paths and bytes are git's")
        return commits

    def compact(self):
        start = time.monotonic()
        output_of(self.icecore, "compact", self.store, "--compress", "-o", "json")
        self.told("icecore compact --compress", f"in {time.monotonic() - start:.1f} s")

    @contextlib.contextmanager
    def loading_newer(self):
        """A process that has begun to load the newer commits, and is halted for most of the time until what is inside has ended."""
        process = subprocess.Popen(self.load_command(self.newer[-1]), stdout=subprocess.DEVNULL)
        while process.poll() is None and not is_written(self.store):  # until then a reader would keep it out
            time.sleep(0.001)
        at_leisure = threading.Event()
        at_leisure.set()

        def hold_back():
            while at_leisure.is_set() and process.poll() is None:
                process.send_signal(signal.SIGSTOP)
                time.sleep(HALTS_S)
                process.send_signal(signal.SIGCONT)
                time.sleep(RUNS_S)

        holding = threading.Thread(target=hold_back)
        holding.start()
        try:
            while process.poll() is None and self.newest_loaded() == self.older[-1]:
                time.sleep(0.01)
            yield process
        except BaseException:
            process.terminate()
            raise
        finally:
            at_leisure.clear()
            holding.join()
            code = process.wait()
        if code != 0:
            raise CannotCompare(f"the process that loads the newer commits ended with exit code {code}")

    def compare_beside(self, loader):
        """At most COMPARED_BESIDE times; returns of how many commits those were that began and ended while the loader was there."""
        seen = []
        while loader.poll() is None and len(seen) < COMPARED_BESIDE:
            commits = self.compare("beside a process that loads")
            if loader.poll() is None:
                seen.append(commits)
        return seen


def run(arguments):
    store = Path(arguments.store)
    store.parent.mkdir(parents=True, exist_ok=True)
    store.unlink(missing_ok=True)
    packing = Packing(arguments)
    packing.load_older()
    packing.compare("as loaded")
    packing.compact()
    packing.compare("packed")
    seen = []
    if packing.newer:
        with packing.loading_newer() as loader:
            seen = packing.compare_beside(loader)
        packing.compare("at the end, and the newest", packing.newer[-1])
    print(f"  icecore verify: {output_of(packing.icecore, 'verify', packing.store).strip().splitlines()[-1].split(': ', 1)[-1]}")
    beside = f"and beside the process that loaded on ({len(seen)}x)" if seen else "and begun beside the process that loaded on, which was done first"
    print(f"  {len(packing.drawn)} snapshots are git's before packing, after it, {beside} (--seed {arguments.seed})")
    return 0


def main():
    parser = argparse.ArgumentParser(description="Packs a git history in a store, and compares snapshots with git while more of it is loaded.")
    parser.add_argument("store", metavar="STORE", help="made anew")
    parser.add_argument("repository", metavar="REPOSITORY")
    parser.add_argument("--icecore", required=True, metavar="PROGRAM")
    parser.add_argument("--snapshots", type=int, default=3, metavar="N", help="how many to compare (default: 3)")
    parser.add_argument("--seed", type=int, help="the seed that draws them (default: a different one each time)")
    arguments = parser.parse_args()
    if arguments.snapshots < 1:
        parser.error("--snapshots: at least 1")
    if arguments.seed is None:
        arguments.seed = random.randrange(10**9)
    return run(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Differs as difference:
        print(f"pack: {difference}", file=sys.stderr)
        sys.exit(1)
    except (CannotCompare, OSError) as problem:
        print(f"pack: {problem}", file=sys.stderr)
        sys.exit(2)
