#!/usr/bin/env python3
"""Asks git and a store that `icecore load --git` filled the same questions about the past, and compares answers and times.

    tools/demonstration/git_past.py STORE REPOSITORY --icecore PROGRAM --library libicecore.so [--commits 12] [--seed N]

Commits are drawn at random. Each question is asked of git's command, of icecore's command, and of a store that is open in
this program already. The time is the median; git's and icecore's commands start from nothing each time. Exit code 1 if
any answer of icecore differs from git's, 2 if it cannot compare.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time

import c_interface


class CannotCompare(Exception):
    pass


def output_of(command):
    environment = dict(os.environ, GIT_NO_REPLACE_OBJECTS="1")  # commits as they are, as icecore reads them
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=False)
    except OSError as problem:
        raise CannotCompare(f"{command[0]}: {problem.strerror}") from None
    if done.returncode != 0:
        raise CannotCompare(f"{' '.join(command)} failed with exit code {done.returncode}")
    return done.stdout


def commits_that_changed(git, path):
    """Newest first. A folder that once had the path's name does not count."""
    said = output_of([*git, "log", "--first-parent", "-m", "--no-renames", "--name-only", "--format=%x00%H", "HEAD", "--", f":(literal,top){path}"])
    records = [record.decode(errors="replace").splitlines() for record in said.split(b"\0")[1:]]
    return [record[0] for record in records if path in record[1:]]


class Question:
    """One question, asked of three that answer; collects their times and what was wrong."""

    def __init__(self, text):
        self.text = text
        self.times = {"git": [], "command": [], "open": []}
        self.asked = []  # (what about, git's answer, how the open store answers)
        self.wrong = []

    def timed(self, who, answer):
        start = time.perf_counter()
        said = answer()
        self.times[who].append(time.perf_counter() - start)
        return said

    def judge(self, who, about, said, expected):
        if said != expected:
            self.wrong.append(f"{self.text}, {about}: icecore ({who}) differs from git")

    def ask(self, about, git, command, opened):
        expected = self.timed("git", git)
        self.judge("command", about, self.timed("command", command), expected)
        self.asked.append((about, expected, opened))

    def ask_open_store(self, store):
        for about, expected, opened in self.asked:
            self.judge("open", about, self.timed("open", lambda answer=opened: answer(store)), expected)

    def row(self):
        times = [f"{statistics.median(self.times[who]) * 1e3:.2f} ms" for who in ("git", "command", "open")]
        return f"  {self.text:<38}" + "".join(f"{shown:>16}" for shown in times) + f"   {'differ' if self.wrong else 'equal'}"


def tags_of(arguments):
    """Commits, newest first: the store's tags, which must be git's chain, and each one's version."""
    git = ["git", "-C", arguments.repository]
    commits = output_of([*git, "log", "--first-parent", "--format=%H", "HEAD"]).decode().split()
    listed = output_of([arguments.icecore, "log", arguments.store, "-o", "json"]).decode().splitlines()
    versions = {tag["name"]: tag["version"] for tag in map(json.loads, listed)}
    if list(versions) != commits:
        raise CannotCompare("the store's tags are not the commits of this repository's HEAD; load it again")
    return versions


def ask(arguments, questions):
    """Asks git and icecore's command. The store is closed, as a user's is."""
    git, icecore = ["git", "-C", arguments.repository], arguments.icecore
    listing, content, past = questions
    versions = tags_of(arguments)
    names = {version: name for name, version in versions.items()}
    chooser = random.Random(arguments.seed)
    for commit in chooser.sample(list(versions), min(arguments.commits, len(versions))):
        at = ["--at", "tag:" + commit]
        listing.ask(
            commit[:12],
            git=lambda: output_of([*git, "ls-tree", "-rz", "--full-tree", "--name-only", commit]).split(b"\0")[:-1],
            command=lambda: output_of([icecore, "scan", arguments.store, *at, "--keys-only", "-0"]).split(b"\0")[:-1],
            opened=lambda store, commit=commit: store.keys(commit),
        )
        entries = output_of([*git, "ls-tree", "-rz", "--full-tree", commit]).split(b"\0")[:-1]
        blobs = [entry.split(b"\t", 1)[1] for entry in entries if entry.split()[1] == b"blob"]
        paths = [path for path in blobs if path.isascii() and path.decode().isprintable() and not {34, 92} & {*path}]  # git quotes others
        if not paths:
            continue
        path = chooser.choice(paths).decode()
        content.ask(
            f"{path} of {commit[:12]}",
            git=lambda: output_of([*git, "cat-file", "blob", f"{commit}:{path}"]),
            command=lambda: output_of([icecore, "get", arguments.store, path, *at]),
            opened=lambda store, commit=commit, path=path: store.find(path, store.version_of(commit)),
        )
        past.ask(
            path,
            git=lambda: commits_that_changed(git, path),
            command=lambda: [json.loads(line)["tag"]
                             for line in output_of([icecore, "history", arguments.store, path, "-o", "json"]).splitlines()],
            opened=lambda store, path=path: [names[version] for version, _ in store.history(path, c_interface.NEWEST_FIRST)],
        )


def compare(arguments):
    questions = Question("all files of a commit"), Question("one file of a commit"), Question("all commits that changed one file")
    ask(arguments, questions)
    store = c_interface.Store(arguments.store)
    for question in questions:
        question.ask_open_store(store)
    store.close()
    print(f"  {f'median of {len(questions[0].asked)} commits drawn at random':<38}{'git':>16}{'icecore':>16}{'icecore, open':>16}   answers")
    for question in questions:
        if question.asked:
            print(question.row())
    print("  git, icecore: the command, started anew each time; icecore, open: a program that has the store open")
    return [problem for question in questions for problem in question.wrong]


def main():
    parser = argparse.ArgumentParser(description="Compares a store filled by `icecore load --git` with git: answers and times.")
    parser.add_argument("store", metavar="STORE")
    parser.add_argument("repository", metavar="REPOSITORY")
    parser.add_argument("--icecore", required=True, metavar="PROGRAM")
    parser.add_argument("--library", required=True, metavar="FILE", help="libicecore.so")
    parser.add_argument("--commits", type=int, default=12, metavar="N", help="how many to ask for (default: 12)")
    parser.add_argument("--seed", type=int, help="the seed that draws them (default: a different one each time)")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.randrange(10**9)
    c_interface.use_library(arguments.library)
    wrong = compare(arguments)
    for problem in wrong[:10]:
        print(f"git_past: {problem}", file=sys.stderr)
    if wrong:
        print(f"git_past: {len(wrong)} answers differ (--seed {arguments.seed})", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CannotCompare, c_interface.StoreError, OSError) as problem:
        print(f"git_past: {problem}", file=sys.stderr)
        sys.exit(2)
