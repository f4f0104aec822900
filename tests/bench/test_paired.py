"""bench/paired: of two programs that take turns it tells the ratio of each row; programs that fail end it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PAIRED = Path(__file__).resolve().parents[2] / "bench" / "paired"

PROGRAM = """#!{python}
import json, sys
if "--list" in sys.argv:
    print("Stores:\\n  icecore-tag   icecore's own, a B+-tree\\n  LMDB   another")
    sys.exit()
with open({log!r}, "a") as log:
    log.write({name!r} + "\\n")
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


def paired(*words):
    return subprocess.run([sys.executable, "-B", PAIRED, *words], capture_output=True, text=True, check=False, timeout=60)


def test_a_program_that_is_half_as_fast_again_is_reported_as_one_and_a_half(program, tmp_path):
    out = tmp_path / "ratios.json"
    run = paired(program("before", 200), program("after", 300), "--repetitions", "3", "--json", out, "--", "--suite", "paper")
    assert run.returncode == 0, run.stderr
    assert "find" in run.stdout and "1.500  1.500 to 1.500" in run.stdout and "sync" not in run.stdout
    assert json.loads(out.read_text(encoding="utf-8")) == [{"row": ["paper", "find", "icecore-tag", 2], "ratios": [1.5] * 3}]


def test_the_programs_take_turns_and_each_begins_in_its_turn(program, tmp_path):
    paired(program("before", 1), program("after", 1), "--repetitions", "2", "--", "--suite", "paper")
    assert (tmp_path / "log").read_text(encoding="utf-8").split() == ["before", "after", "after", "before"]


def test_without_options_only_the_projects_own_stores_are_measured(program):
    run = paired(program("before", 1), program("after", 1), "--repetitions", "1")
    assert run.returncode == 0 and "icecore-tag" in run.stdout


def test_a_wrong_answer_of_a_program_ends_it(program):
    run = paired(program("before", 1), program("after", 1, failures='["find: a wrong answer"]'), "--repetitions", "1")
    assert run.returncode == 1 and "after" in run.stderr and "a wrong answer" in run.stderr


def test_a_program_that_is_not_there_is_named(program, tmp_path):
    run = paired(program("before", 1), tmp_path / "nowhere")
    assert run.returncode == 2 and "nowhere: no such program" in run.stderr
