"""Random conditions match the rows that DuckDB finds: two languages that were written independently. And the program
that compares their speed gives right answers.

ICECORE_EXPRESSIONS: how many conditions (default 2,000); ICECORE_SEED: the first one's seed.
"""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from duckdb_expressions import COLUMNS, LAYOUT, TYPES, Columns, Expression, Generator, as_text, filter_text, quoted

duckdb = pytest.importorskip("duckdb")

EXPRESSIONS = int(os.environ.get("ICECORE_EXPRESSIONS", "2000"))
SEED = int(os.environ.get("ICECORE_SEED", "1"))
ROWS = 100
CONDITIONS_A_STATEMENT = 20
STATEMENTS_WITH_THE_SAME_ROWS = 5


def column_values(version, key, value):
    """In the order of COLUMNS; None where the value is too short for one."""
    def number(form, at):
        size = struct.calcsize(form)
        return struct.unpack_from("<" + form, value, at)[0] if len(value) >= at + size else None

    return (key, version, number("q", 0), number("Q", 8), number("i", 16), number("d", 20), number("f", 28),
            value[32:34] if len(value) >= 34 else None, value[34:] if len(value) >= 34 else None, value)


class Rows:
    """The same rows in a store and in DuckDB."""

    def __init__(self, store):
        self.store = store
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("set ieee_floating_point_ops = true")
        columns = ", ".join(f"{name} {TYPES[type_]}" for name, type_ in COLUMNS)
        self.connection.execute(f"create table rows(n integer, {columns})")

    def renew(self, generator):
        made = dict(generator.row() for _ in range(ROWS))
        self.store.clear()
        versions = {}
        for place, (key, value) in enumerate(made.items()):
            versions[key] = self.store.insert(key, value)
            if place % 30 == 29:
                self.store.tag()
        self.values = dict(sorted(made.items()))
        self.keys = list(self.values)
        self.snapshot = self.store.latest()
        lines = []
        for n, (key, value) in enumerate(self.values.items()):
            cells = zip(column_values(versions[key], key, value), COLUMNS)
            lines.append(f"({n}, {', '.join(self.cell(data, type_) for data, (_, type_) in cells)})")
        self.connection.execute("delete from rows")
        self.connection.execute("insert into rows values " + ", ".join(lines))

    @staticmethod
    def cell(data, type_):
        if data is None:
            return "null"
        return quoted(as_text(data)) if type_ == "text" else f"{quoted(repr(data))}::{TYPES[type_]}"

    def found_by_duckdb(self, conditions):
        """For each condition, its truth in each row: True, False or None."""
        rows = self.connection.execute(Columns(conditions).statement()).fetchall()
        return list(zip(*rows))

    def found(self, condition):
        """The same by icecore."""
        text = filter_text(condition)
        matching = list(self.snapshot.where(text, LAYOUT).keys())
        opposite = list(self.snapshot.where(f"not {text}", LAYOUT).keys())
        assert matching == sorted(matching) and not set(matching) & set(opposite)
        return [True if key in matching else False if key in opposite else None for key in self.keys]

    def require_same(self, condition, truths):
        for key, found, expected in zip(self.keys, self.found(condition), truths):
            assert found == expected, (
                f"{filter_text(condition)}\nin SQL: {Columns([condition]).statement()}\n"
                f"row {column_values(0, key, self.values[key])}: {found} by icecore, {expected} by DuckDB"
            )


def test_random_conditions_match_the_rows_that_duckdb_finds(store):
    generator = Generator(SEED)
    rows = Rows(store)
    told = {True: 0, False: 0, None: 0}
    for begin in range(0, EXPRESSIONS, CONDITIONS_A_STATEMENT):
        if begin % (CONDITIONS_A_STATEMENT * STATEMENTS_WITH_THE_SAME_ROWS) == 0:
            rows.renew(generator)
        conditions = [generator.condition(1 + n % 4) for n in range(min(CONDITIONS_A_STATEMENT, EXPRESSIONS - begin))]
        for condition, truths in zip(conditions, rows.found_by_duckdb(conditions)):
            rows.require_same(condition, truths)
            for truth in truths:
                told[truth] += 1
    assert min(told.values()) > sum(told.values()) / 20, f"conditions of which most say the same tell little: {told}"


def test_another_answer_of_duckdb_is_reported(store):
    rows = Rows(store)
    rows.renew(Generator(SEED))
    a, zero = Expression("column", "whole", literal="a"), Expression("literal", "whole", literal=0)
    less, at_most = (Expression(op, "truth", [a, zero]) for op in ("<", "<="))
    rows.require_same(less, rows.found_by_duckdb([less])[0])
    with pytest.raises(AssertionError, match="True by icecore, False by DuckDB"):
        rows.require_same(at_most, [False] * ROWS)


def test_the_program_that_compares_speed_checks_what_it_measures(tmp_path):
    program = Path(__file__).resolve().parents[2] / "bench" / "beside_duckdb"
    arguments = ["--keys", "3000", "--repetitions", "5", "--folder", tmp_path, "--json", tmp_path / "times.json"]
    done = subprocess.run([sys.executable, "-B", program, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: slower than asked for, of so few keys
    times = json.loads((tmp_path / "times.json").read_text(encoding="utf-8"))["seconds_cpu_and_clock"]
    assert len(times) == 6 and all(len(repetitions) == 5 for repetitions in times.values())
    assert list(tmp_path.iterdir()) == [tmp_path / "times.json"]
    wrong = program.read_text(encoding="utf-8").replace(".count(threads=1), int)", ".count(threads=1) + 1, int)", 1)
    copy = tmp_path / "wrong"
    copy.write_text(wrong, encoding="utf-8")
    done = subprocess.run([sys.executable, "-B", copy, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and "301 rows in place of 300" in done.stderr, done.stdout + done.stderr
