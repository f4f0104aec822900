"""examples/commit_table and tools/check-git-table: sums over a git history as a table, after every commit."""

import importlib.util
import os
import subprocess
import sys

import pytest
from conftest import PROJECT
from git_repositories import ENVIRONMENT, EXECUTABLE, FILE, LINK, Repository, git, random_repository

CHECKER = PROJECT / "tools" / "check-git-table"
PROGRAM = os.environ.get("ICECORE_COMMIT_TABLE", "commit_table")
HAS_DUCKDB = importlib.util.find_spec("duckdb") is not None


def check(repository, *arguments, program=PROGRAM):
    return subprocess.run(
        [sys.executable, "-B", CHECKER, repository, "--program", program, *arguments],
        capture_output=True,
        check=False,
        text=True,
        env=ENVIRONMENT,
    )


def table_of(store, log, *questions, code=0):
    done = subprocess.run([PROGRAM, store, *questions], input=log, capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    return [line.split(b"\t") for line in done.stdout.splitlines()] if code == 0 else done.stderr


def log_of(path):
    return git(path, "log", "--reverse", "--first-parent", "-m", "--no-renames", "--numstat", "--summary", "--format=commit %H %ct")


@pytest.mark.parametrize("oracle", ["sqlite", pytest.param("duckdb", marks=pytest.mark.skipif(not HAS_DUCKDB, reason="no duckdb"))])
def test_each_number_is_the_oracles(tmp_path, rng, oracle):
    repository = random_repository(tmp_path / "repository", rng, commits=60)
    done = check(repository.path, "--oracle", oracle)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "60 commits, " in done.stdout and "480 numbers: " in done.stdout and "finds the same" in done.stdout
    assert check(repository.path, "--oracle", oracle, "--commits", "7").stdout.splitlines()[-1].startswith("7 commits, ")


def test_without_duckdb_sqlite_answers_and_the_check_says_so(tmp_path):
    repository = Repository(tmp_path / "repository")
    repository.commit({b"a": (FILE, b"1\n2\n")})
    repository.finish()
    done = check(repository.path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ("is not installed" in done.stdout) == (not HAS_DUCKDB)
    assert ("SQLite" in done.stdout) == (not HAS_DUCKDB)


def test_lines_are_those_of_the_files_that_are_there(store, tmp_path):
    repository = Repository(tmp_path / "repository")
    repository.commit({b"a": (FILE, b"1\n2\n3\n"), b"b/\xff": (EXECUTABLE, b"1\n"), b"binary": (FILE, b"\0\n\n")})
    repository.commit({b"a": (FILE, b"1\n3\n")})
    repository.commit({})
    repository.commit({b"a": None, b"link": (LINK, b"b")})
    repository.commit({b"a": (FILE, b"another life\n")})
    repository.finish()
    found = table_of(store, log_of(repository.path))
    assert [line[0].decode() for line in found] == [commit["hash"] for commit in repository.commits]
    assert [line[1:] for line in found] == [[b"3", b"4"], [b"3", b"3"], [b"3", b"3"], [b"3", b"2"], [b"4", b"3"]]
    asked = ["max", "added", "key = 'a'", "min", "time", "deleted > 0", "sum", "deleted", "true"]
    times = [b"%d" % commit["time"] for commit in repository.commits]
    assert [line[1:] for line in table_of(store, log_of(repository.path), *asked)] == [
        [b"3", b"-", b"0"],
        [b"3", times[1], b"1"],
        [b"3", times[1], b"1"],
        [b"-", b"-", b"0"],
        [b"1", b"-", b"0"],
    ]


def test_what_is_no_log_and_no_question_is_refused(store):
    assert b"not a line of git log --numstat: what" in table_of(store, b"commit 11 22\n\nwhat\n", code=1)
    assert b"a commit without a time: commit 11" in table_of(store, b"commit 11\n", code=1)
    assert b"not count, sum, min or max: mean" in table_of(store, b"commit 11 22\n", "mean", "added", "true", code=1)
    assert b"byte 0: unknown column 'ad'" in table_of(store, b"commit 11 22\n", "sum", "ad", "true", code=1)
    assert b"usage: commit_table STORE" in table_of(store, b"", "sum", code=1)


def test_a_number_that_differs_is_reported(tmp_path, rng):
    repository = random_repository(tmp_path / "repository", rng, commits=5)
    wrong = tmp_path / "wrong"
    wrong.write_text(f"""#!/bin/sh
'{PROGRAM}' "$@" | awk -F '\t' -v OFS='\t' 'NR == 3 {{ $3 = $3 + 1 }} {{ print }}'
""")
    wrong.chmod(0o755)
    done = check(repository.path, program=wrong)
    name = repository.commits[2]["hash"][:12]
    assert done.returncode == 1 and f"{name}: lines: " in done.stdout and "1 differ from " in done.stdout, done
    wrong.write_text("#!/bin/sh\nexit 0\n")
    done = check(repository.path, program=wrong)
    assert done.returncode == 2 and "did not answer for each commit" in done.stderr
    assert check(tmp_path / "nothing").returncode == 2
