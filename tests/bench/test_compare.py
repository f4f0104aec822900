"""bench/compare: of two programs that take turns it tells the ratio of each row and whether one is slower; programs that
fail end it."""

import json
import math
import random
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from intervals import interval_of_median, is_narrow  # noqa: E402

PROGRAM = """#!{python}
import json, sys
if "--list" in sys.argv:
    print("Stores:\\n  icecore-tag   icecore's own, a B+-tree\\n  LMDB   another")
    sys.exit()
with open({log!r}, "a") as log:
    log.write({name!r} + "\\n")
turn = open({log!r}).read().split().count({name!r})
rows = [{{"suite": "paper", "workload": "find", "store": "icecore-tag", "threads": 2, "ops_per_second": {rate}}},
        {{"suite": "limits", "workload": "sync", "store": "machine", "threads": 1, "ops_per_second": 1}}]
json.dump({{"rows": rows, "failures": {failures}}}, open(sys.argv[sys.argv.index("--json") + 1], "w"))
"""


@pytest.fixture
def program(tmp_path):
    def make(name, rate, failures="[]"):
        path = tmp_path / name
        path.write_text(PROGRAM.format(python=sys.executable, log=str(tmp_path / "log"), name=name, rate=rate, failures=failures),
                        encoding="utf-8")
        path.chmod(0o755)
        return path

    return make


def compare(*words):
    return subprocess.run([sys.executable, "-B", BENCH / "compare", *words], capture_output=True, text=True, check=False, timeout=60)


def test_a_program_that_is_half_as_fast_again_is_reported_as_one_and_a_half(program, tmp_path):
    out = tmp_path / "ratios.json"
    run = compare(program("before", 200), program("after", 300), "--repetitions", "3", "--json", out, "--", "--suite", "paper")
    assert run.returncode == 0, run.stderr
    assert "find" in run.stdout and "1.500  1.500 to 1.500" in run.stdout and "faster" in run.stdout and "sync" not in run.stdout
    assert json.loads(out.read_text(encoding="utf-8")) == [{"row": ["paper", "find", "icecore-tag", 2], "ratios": [1.5] * 3}]


def test_the_programs_take_turns_and_each_begins_in_its_turn(program, tmp_path):
    compare(program("before", 1), program("after", 1), "--repetitions", "2", "--", "--suite", "paper")
    assert (tmp_path / "log").read_text(encoding="utf-8").split() == ["before", "after", "after", "before"]


def test_without_options_only_the_projects_own_stores_are_measured(program):
    run = compare(program("before", 1), program("after", 1), "--repetitions", "2")
    assert run.returncode == 0 and "icecore-tag" in run.stdout


def test_a_program_that_is_slower_by_more_than_is_allowed_fails_the_gate(program):
    before, after = program("before", 100), program("after", 90)
    run = compare(before, after, "--repetitions", "2", "--", "--suite", "paper")
    assert run.returncode == 1 and "SLOWER" in run.stdout
    run = compare(before, after, "--repetitions", "2", "--worse", "15", "--", "--suite", "paper")
    assert run.returncode == 0 and "SLOWER" not in run.stdout


def test_it_goes_on_while_it_cannot_tell_and_says_so_at_the_end(program, tmp_path):
    run = compare(program("before", 100), program("after", "100 + 20 * (-1) ** turn"), "--repetitions", "2", "--most", "6", "--", "--suite", "paper")
    assert run.returncode == 3 and "unclear" in run.stdout and "6 pairs" in run.stdout
    assert (tmp_path / "log").read_text(encoding="utf-8").split().count("after") == 6


def test_a_wrong_answer_of_a_program_ends_it(program):
    run = compare(program("before", 1), program("after", 1, failures='["find: a wrong answer"]'), "--repetitions", "1")
    assert run.returncode == 4 and "after" in run.stderr and "a wrong answer" in run.stderr


def test_what_is_neither_a_program_nor_a_commit_is_named(program, tmp_path):
    run = compare(program("before", 1), tmp_path / "nowhere")
    assert run.returncode == 2 and "nowhere: neither a commit nor a program" in run.stderr


@pytest.mark.parametrize(("count", "dropped"), [(2, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (20, 5), (31, 9)])
def test_an_interval_leaves_out_as_many_as_the_tables_of_the_sign_test_say(count, dropped):
    low, high, confidence = interval_of_median(range(count))
    assert (low, high) == (dropped, count - 1 - dropped)
    assert confidence == pytest.approx(1 - 2 * sum(math.comb(count, k) for k in range(dropped + 1)) / 2**count)


def test_an_interval_holds_the_median_as_often_as_it_says():
    drawn = random.Random(1)
    hits = sum(low <= 1 <= high for low, high, _ in (interval_of_median([drawn.lognormvariate(0, 1) for _ in range(9)]) for _ in range(4000)))
    assert 0.945 <= hits / 4000 <= 0.98  # 0.961 of nine


def test_one_repetition_is_never_narrow():
    assert not is_narrow([1.0], 0.5)
    assert is_narrow([1.0] * 5, 0.01) and statistics.median([1.0] * 5) == 1
