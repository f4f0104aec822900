"""bench/page: the tables of docs/performance.md are what the files of their runs say."""

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/performance.md"


def page(*words):
    return subprocess.run([sys.executable, "-B", ROOT / "bench/page", *words], capture_output=True, text=True, check=False, timeout=60)


def test_the_published_tables_are_those_of_their_files():
    run = page("--check")
    assert run.returncode == 0, run.stdout + run.stderr
    assert PAGE.read_text(encoding="utf-8").count("<!-- made of:") >= 2


@pytest.fixture
def copy(tmp_path):
    def make(change):
        path = tmp_path / "performance.md"
        path.write_text(change(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
        return path

    return make


def test_a_figure_that_no_run_gave_is_found_and_made_anew(copy):
    text = PAGE.read_text(encoding="utf-8")
    figure = re.search(r"\| icecore-none \| ([\d.]+) M", text)
    assert figure
    changed = copy(lambda text: text.replace(figure[0], figure[0].replace(figure[1], "9.99"), 1))
    run = page("--page", changed)
    assert run.returncode == 1 and "the table 'rates " in run.stdout
    assert page("--write", "--page", changed).returncode == 0
    assert changed.read_text(encoding="utf-8") == text


@pytest.mark.parametrize(("change", "told"), [
    (lambda text: text.replace("<!-- end -->", "", 1), "no <!-- end -->"),
    (lambda text: text.replace("made of: rates", "made of: wishes", 1), "no table 'wishes'"),
    (lambda text: re.sub(r"made of: rates \S+", "made of: rates nowhere.json.gz", text, count=1), "nowhere.json.gz"),
])
def test_a_table_that_cannot_be_made_is_told(copy, change, told):
    run = page("--page", copy(change))
    assert run.returncode == 2 and told in run.stderr and "Traceback" not in run.stderr


def test_ratios_are_of_the_repetitions_that_were_made_together(tmp_path):
    def row(store, rates):
        ordered = sorted(rates)
        return {"suite": "paper", "workload": "find", "store": store, "threads": 1, "n": 10, "repetitions": len(rates),
                "ops_per_second": ordered[len(rates) // 2], "min": ordered[0], "max": ordered[-1], "rates": rates}

    # by medians the ratio would be 1; in each repetition it is 2
    rows = [row("ours", [200, 20, 2000, 2, 20000]), row("theirs", [100, 10, 1000, 1, 10000])]
    file = tmp_path / "run.json.gz"
    with gzip.open(file, "wt", encoding="utf-8") as out:
        json.dump({"machine": {}, "rows": rows}, out)
    made = tmp_path / "page.md"
    made.write_text(f"<!-- made of: ratios {file} paper ours theirs -->\n\n<!-- end -->\n", encoding="utf-8")
    assert page("--write", "--page", made).returncode == 0
    assert "| find | 2.00 (2.00 to 2.00) / – |" in made.read_text(encoding="utf-8")
