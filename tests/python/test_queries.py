"""Kept queries: their rows are there whatever stops them."""

import threading
import time

import pytest
from conftest import open_store

import icecore


@pytest.fixture
def filled(path):
    with open_store(path) as store:
        with store.batch() as b:
            for i in range(20_000):
                b[b"%05d" % i] = b"%d" % (i % 10)
        store.tag("full")
        store[b"new"] = b"1"
        yield store


def wanted(limit=b"3"):
    return [b"%05d" % i for i in range(20_000) if b"%d" % (i % 10) < limit]


def test_rows_are_those_of_the_version_and_stay_over_openings(filled, path):
    query = filled.start("audit", "value < '3'", at="full")
    assert (query.name, query.version, query.state, query.keep, len(query)) == ("audit", 1, "ready", "keys", 0)
    paused = query.run(keys=5_000)
    assert paused.state == "paused" and 5_000 <= paused.examined < 20_000 and paused.runs == 1
    assert paused.left_seconds >= 0 and paused.worked_seconds > 0 and paused == query.progress
    query.acknowledge(10)
    filled.close()
    with pytest.raises(icecore.ClosedError):
        query.run()
    with open_store(path) as store:
        again = store.query("audit")
        assert again.progress.rows == paused.rows and again.acknowledged == 10
        assert again.run(threads=2).state == "finished"
        assert [row.key for row in again.results()] == wanted()
        assert [(r.number, r.key, r.value) for r in again.results(5_998)] == [
            (5_998, b"19991", b"1"),
            (5_999, b"19992", b"2"),
        ]
        assert {row.value for row in again.results(values=False)} == {None}
        assert len(again) == 6_000 and again.progress.left_seconds is None
        assert "starts" not in again.explain() and "value" in again.explain()
        assert again.created.year >= 2024


def test_results_are_columns_too(filled):
    query = filled.start("columns", "value = '7'", at=1)
    query.run()
    arrays = query.results(1_990).to_numpy()
    assert arrays["number"].tolist() == list(range(1_990, 2_000))
    assert list(arrays["key"]) == wanted(b"8")[7::8][1_990:] and set(arrays["value"]) == {b"7"}
    found = query.results(values=False).to_arrow()
    assert found.names == ["number", "key"] and len(found) == 2_000
    pyarrow = pytest.importorskip("pyarrow")
    assert pyarrow.table(found)["key"].to_pylist() == wanted(b"8")[7::8]


def test_rows_are_read_while_the_query_runs(filled):
    query = filled.start("slow", "value < '3'", at=1)
    running = threading.Thread(target=lambda: query.run(keys_per_second=30_000, every=0.001))
    running.start()
    lengths = []
    while running.is_alive():
        rows = [row.key for row in query.results()]
        assert rows == wanted()[: len(rows)]
        lengths.append(len(rows))
        time.sleep(0.01)
    assert lengths == sorted(lengths) and len(set(lengths)) > 2
    assert [row.key for row in query.results()] == wanted()


def test_pausing_cancelling_and_dropping(filled):
    query = filled.start("one", at=1)
    with pytest.raises(icecore.QueryExistsError):
        filled.start("one")
    ended = []
    running = threading.Thread(target=lambda: ended.append(query.run(keys_per_second=2_000)))
    running.start()
    while query.state != "running":
        time.sleep(0.001)
    with pytest.raises(icecore.QueryBusyError):
        query.run()
    with pytest.raises(icecore.QueryBusyError):
        query.drop()
    query.pause()
    running.join()
    assert ended[0].state == "paused"
    query.cancel()
    assert query.state == "cancelled"
    with pytest.raises(icecore.InvalidArgumentError):
        query.run()
    count = filled.start("count", "value = '1'", at=1, keep="count")
    assert count.run().rows == 2_000 and count.keep == "count"
    with pytest.raises(icecore.InvalidArgumentError):
        count.results()
    with pytest.raises(icecore.InvalidArgumentError, match="keep"):
        filled.start("two", keep="all")
    assert [q.name for q in filled.queries()] == ["one", "count"]
    assert "2,000" in filled.queries()._repr_html_() or "2000" in filled.queries()._repr_html_()
    assert "cancelled" in query._repr_html_() and "'one'" in repr(query)
    query.drop()
    with pytest.raises(icecore.NoSuchQueryError):
        query.progress
    with pytest.raises(icecore.NoSuchQueryError, match="count"):
        filled.query("counts")


def test_what_is_raised_pauses_the_query(filled):
    fails = [True]

    @icecore.filter_function(name="small", revision=1)
    def small(keys, values):
        if fails[0] and keys[0] >= b"1":
            raise ZeroDivisionError("not today")
        return [v < b"3" for v in values]

    query = filled.start("fails", small, at=1)
    with pytest.raises(ZeroDivisionError):
        query.run(threads=2)
    assert query.state == "paused"
    fails[0] = False

    def stop(progress):
        assert progress.state in ("running", "finished")
        raise InterruptedError

    with pytest.raises(InterruptedError):
        query.run(keys_per_second=20_000, on_progress=stop)
    seen = []
    query.run(on_progress=seen.append)
    assert seen[-1].rows == 6_000
    assert [row.key for row in query.results()] == wanted()


def test_functions_are_asked_for_by_name_and_revision(filled, path):
    def small(keys, values):
        return [v < b"3" for v in values]

    filled.start("function", small, at=1).run(keys=3_000)
    filled.close()
    with open_store(path) as store:
        other = icecore.filter_function(small, revision=5)
        with pytest.raises(icecore.UnknownFunctionError, match="test_queries.test_functions"):
            store.query("function", [other])
        query = store.query("function")
        assert query.progress.rows > 0
        with pytest.raises(icecore.UnknownFunctionError):
            query.run()
        with pytest.raises(TypeError):
            store.query("function", "key > ''")
        query = store.query("function", small)
        assert query.run().state == "finished"
        assert [row.key for row in query.results()] == wanted()


def test_control_c_pauses_and_raises_keyboard_interrupt(path, run):
    printed = run(
        """
        import os, signal, sys, threading, icecore
        with icecore.open(sys.argv[1]) as store:
            for i in range(5000):
                store[b"%d" % i] = b"v"
            query = store.start("q")
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            try:
                query.run(keys_per_second=500)
            except KeyboardInterrupt:
                print(query.state, 0 < query.progress.examined < 5000)
            print(query.run().rows)
        """,
        path,
    )
    assert printed.split() == ["paused", "True", "5000"]


def test_a_query_of_a_function_does_not_hinder_the_interpreter_from_ending(path, run):
    run(
        """
        import sys, icecore
        store = icecore.open(sys.argv[1])
        store["k"] = "v"
        query = store.start("q", lambda keys, values: [True] * len(keys))
        query.run()
        found = store.latest().where(lambda keys, values: [True] * len(keys))
        rows = iter(query.results())
        next(rows), next(iter(found))
        """,
        path,
    )


def test_selected_columns_and_totals_are_kept(path):
    import numpy as np

    layout = "price f64, qty i32"
    record = np.dtype([("price", "<f8"), ("qty", "<i4")])
    with open_store(path) as store:
        with store.batch() as b:
            for i in range(3_000):
                b[b"%05d" % i] = np.array([(i / 7, i - 1_000)], record).tobytes()
        query = store.start(
            "sales",
            "qty % 2 = 0",
            layout=layout,
            select=["key", "price", "qty * 2 as double"],
            aggregates=[("sum", "price"), ("max", "qty"), ("count", "true")],
        )
        assert query.keep == "rows"
        query.run(threads=2)
    with open_store(path) as store:
        query = store.query("sales")
        arrays = query.results().to_numpy()
        even = [i for i in range(3_000) if i % 2 == 0]
        assert list(arrays["key"]) == [b"%05d" % i for i in even]
        assert arrays["price"].tolist() == [i / 7 for i in even]
        assert arrays["double"].tolist() == [2 * (i - 1_000) for i in even]
        total = 0.0
        for i in even:
            total += i / 7
        assert [(t.how, t.expression, t.value) for t in query.totals] == [
            ("sum", "price", total),
            ("max", "qty", 1_998),
            ("count", "true", 1_500),
        ]
        some = query.columns(100).where("price > 100.0").where("double < 1000").to_numpy()
        assert list(some["key"]) == [b"%05d" % i for i in even[100:] if i / 7 > 100 and 2 * (i - 1_000) < 1_000]
        assert len(query.columns(1_400).to_arrow(rows=30)) == 30
        dear = query.columns().where("price > 100.0")
        prices = [i / 7 for i in even if i / 7 > 100]
        assert query.columns().count() == 1_500 and dear.count() == dear.count(threads=1) == len(prices)
        assert dear.sum("double", threads=2) == sum(2 * (i - 1_000) for i in even if i / 7 > 100)
        assert (dear.min("price"), dear.max("price + 0.5")) == (prices[0], prices[-1] + 0.5)
        assert dear.where("price < 0.0").max("price") is None
        with pytest.raises(icecore.InvalidArgumentError, match="begin at row 100"):
            query.columns(100).count()
        with pytest.raises(icecore.InvalidArgumentError):
            list(query.results())
        with pytest.raises(icecore.BadInputError):
            query.columns().where("prize > 1").to_arrow()
        counted = store.start("counted", keep="count", aggregates=[("count", "true")])
        with pytest.raises(icecore.InvalidArgumentError):
            counted.columns()
        with pytest.raises(icecore.InvalidArgumentError):
            store.start("bad", aggregates=[("mean", "price")])


def test_what_a_function_raises_is_kept_and_such_keys_can_be_passed(filled, path):
    bad = {b"00007", b"12345"}

    def answer(keys, values):
        for key in keys:
            if key in bad:
                raise ValueError(f"no answer for {key.decode()}")
        return [value == b"1" for value in values]

    query = filled.start("asked", icecore.filter_function(answer, name="answer", revision=1), at="full")
    with pytest.raises(ValueError):
        query.run()
    assert query.failure.key == b"00007" and "no answer for 00007" in query.failure.message
    filled.close()
    with open_store(path) as store:
        again = store.query("asked", icecore.filter_function(answer, name="answer", revision=1))
        assert again.failure.key == b"00007" and not again.failure.damaged and again.skipped == []
        assert again.run(skip_failed=True).state == "finished"
        assert [one.key for one in again.skipped] == sorted(bad)
        assert again.failure is None and not again.rebound
        assert len(again) == 2_000
        again.rebind(icecore.filter_function(answer, name="answer", revision=2))
        assert again.rebound
        assert store.prune_queries(older_than=3_600) == 0
        assert store.prune_queries() == 1 and store.queries() == []
