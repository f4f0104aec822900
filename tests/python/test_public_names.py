"""Every public name: its signature, its documentation, whose examples run, and what it says of wrong arguments."""

import asyncio
import doctest
import importlib
import inspect
import os
import re
from datetime import datetime, timezone
from importlib.util import find_spec

import numpy as np
import pytest
from conftest import open_store

import icecore


def members(cls):
    """The public methods and properties that the package defines, by name."""
    found = {}
    for base in reversed(cls.__mro__):
        if base.__module__.partition(".")[0] == "icecore":
            found.update(vars(base))
    for name, member in found.items():
        if isinstance(member, (classmethod, staticmethod)):
            member = member.__func__
        if not name.startswith("_") and (callable(member) or isinstance(member, property)):
            yield name, member


def walk(module):
    """All public names of a module and those of its classes: (name, what it names)."""
    for name in module.__all__:
        public = getattr(module, name)
        yield name, public
        if isinstance(public, type):
            for member, value in members(public):
                if not isinstance(value, type):
                    yield f"{name}.{member}", value


PUBLIC = dict(walk(icecore))
AWAITED = {f"aio.{name}": public for name, public in walk(icecore.aio)}
CALLS = {name: public for name, public in PUBLIC.items() if callable(public)}
DOCUMENTED = PUBLIC | AWAITED
WITH_EXAMPLES = {
    name: public
    for name, public in DOCUMENTED.items()
    if not isinstance(public, type) or not issubclass(public, icecore.Error) or public is icecore.Error
}


def test_the_walk_finds_what_there_is():
    for name in ("open", "Store.insert", "Store.get", "Store.clock", "Snapshot.where", "Query.run", "Tag.time", "KeysView"):
        assert name in PUBLIC
    for name in ("aio.open", "aio.Store.put", "aio.Store.keys", "aio.Snapshot.get", "aio.Feed.next"):
        assert name in AWAITED
    assert len(PUBLIC) > 200 and len(AWAITED) > 50
    assert not any("._" in name for name in PUBLIC)


@pytest.mark.parametrize("name", CALLS)
def test_a_public_name_has_a_signature(name):
    signature = inspect.signature(CALLS[name])
    assert type(CALLS[name]).__name__ not in ("nb_func", "nb_method"), "it checks no argument in words of this library"
    if not isinstance(CALLS[name], type):
        assert signature.return_annotation is not inspect.Signature.empty


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_public_name_says_what_it_does_and_what_it_raises(name):
    text = inspect.getdoc(DOCUMENTED[name]) or "\n"
    assert len(text.splitlines()[0]) > 10, text
    if name in WITH_EXAMPLES and name != "Error":
        assert re.search(r"^(Raises|Iterating raises) ", text, re.MULTILINE), f"{name} does not say what it raises"
        assert ">>> " in text, f"{name} shows no example"


REMOTE = [
    (module, name)
    for module in ("icecore.remote", "icecore.remote.aio")
    for name, _ in (walk(importlib.import_module(module)) if find_spec("grpc") else ())
]


@pytest.mark.parametrize(("module", "name"), REMOTE)
def test_a_name_of_the_client_says_what_it_does(module, name):
    text = inspect.getdoc(dict(walk(importlib.import_module(module)))[name]) or "\n"
    assert len(text.splitlines()[0]) > 10, text


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_example_of_a_public_name_is_true(name, tmp_path, monkeypatch):
    text = inspect.getdoc(DOCUMENTED[name]) or ""
    for package in ("pyarrow", "pandas", "polars", "zarr", "matplotlib"):
        if package in text:
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    with open_store("store.ice") as store:
        store.update({"a": "1", "b": "2"})
        store.tag("epoch-1", note="loss 0.5")
        store["a"] = "3"
        known = {"asyncio": asyncio, "icecore": icecore, "store": store, "np": np, "os": os, "datetime": datetime, "timezone": timezone}
        for package in ("pyarrow", "zarr"):
            if package in text:
                known[package] = pytest.importorskip(package)
        test = doctest.DocTestParser().get_doctest(text, known, name, None, 0)
        told = []
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        assert runner.run(test, out=told.append).failed == 0, "".join(told)


# ---- Wrong arguments -------------------------------------------------------------------------------------------------

WRONG = (1.5, -1, 2**70, True, None, object(), "\ud800", b"\xff", "none", [1], {}, np.float32(1), datetime(2020, 1, 1))
RIGHT = {
    "after": 0,
    "aggregates": [("count", "true")],
    "array": np.zeros(3),
    "at": "epoch-1",
    "before": 0,
    "condition": "true",
    "damaged": "store.ice",
    "default": b"",
    "expected_version": 1,
    "expression": "length(key)",
    "functions": (),
    "from_row": 0,
    "key": "a",
    "keys": ["a"],
    "layout": "n u8",
    "other": (),
    "part": 0,
    "path": "new.ice",
    "repaired": "repaired.ice",
    "row": 0,
    "select": "key",
    "token": b"",
    "up_to": "epoch-1",
    "value": "1",
    "values": ["1"],
    "version": "epoch-1",
}


def receivers(store):
    """An object of each class that has methods."""
    for kept in store.queries():
        kept.drop()
    query = store.start("kept", select="key")
    query.run()
    latest = store.latest()
    return {
        icecore.Store: store,
        icecore.Snapshot: latest,
        icecore.Batch: icecore.Batch(),
        icecore.History: store.history("a"),
        icecore.Diff: store.diff(0, latest),
        icecore.Changes: store.changes(0, latest),
        icecore.Feed: store.feed("feed", after=0, unsynced=True),
        icecore.Filter: icecore.Filter("true"),
        icecore.Filtered: latest.where("true"),
        icecore.Query: query,
        icecore.QueryColumns: query.columns(),
        icecore.QueryResults: query.results(),
        icecore.Tags: store.tags(),
        icecore.ArrowStream: latest.to_arrow(),
        icecore.ArrowColumns: latest.where("true").to_arrow("key"),
    }


def right_arguments(signature):
    return {
        name: RIGHT[name] if name in RIGHT else "a name"
        for name, parameter in signature.parameters.items()
        if parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    }


def call(function, arguments):
    signature = inspect.signature(function)
    positional = [
        arguments[name] for name, p in signature.parameters.items() if p.kind is p.POSITIONAL_ONLY and name in arguments
    ]
    named = {n: v for n, v in arguments.items() if signature.parameters[n].kind is not inspect.Parameter.POSITIONAL_ONLY}
    made = function(*positional, **named)
    if hasattr(made, "__next__"):
        list(made)
    elif hasattr(made, "__enter__") and not isinstance(made, icecore.Store):
        with made:
            pass
    elif isinstance(made, icecore.Store):
        made.close()


def attempts(function):
    """The right arguments with one of them wrong."""
    signature = inspect.signature(function)
    right = right_arguments(signature)
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        for wrong in WRONG:
            if (name, wrong) != ("timeout", 1.5):
                yield {**right, name: wrong}


@pytest.mark.parametrize("owner", [None, *sorted({name.partition(".")[0] for name in CALLS if "." in name})])
def test_wrong_arguments_are_refused_in_words_of_this_library(owner, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def opened():
        store = open_store("store.ice", durability="none")
        store.clear()
        store.update({"a": "1", "b": "2"})
        return store

    store = opened()
    store.tag("epoch-1")
    cls = getattr(icecore, owner) if owner else None
    names = [n for n in CALLS if ("." not in n if owner is None else n.startswith(f"{owner}."))]
    refused = 0
    for name in names:
        if owner is None and isinstance(CALLS[name], type) and issubclass(CALLS[name], Exception):
            continue
        if name.endswith((".close", ".sync")) or name == "Store":  # which takes what open() does
            continue
        if name == "zarr_store" and find_spec("zarr") is None:  # zarr 3 needs CPython 3.11
            continue
        receiver = receivers(store).get(cls) if cls else None
        if cls is not None and receiver is None:
            continue
        function = CALLS[name] if cls is None else getattr(receiver, name.partition(".")[2])
        for arguments in attempts(function):
            try:
                call(function, arguments)
            except (TypeError, ValueError, KeyError, OSError, icecore.Error, OverflowError) as error:
                refused += 1
                for raw in ("incompatible function arguments", "nanobind", "std::", "_native"):
                    assert raw not in f"{error}", (name, arguments, error)
            for made in ("new.ice", "repaired.ice", "a name", "none"):
                if os.path.exists(made):
                    os.unlink(made)
        store.close()
        store = opened()
    store.close()
    assert refused > 20 or owner not in ("Batch", "Feed", "Filter", "Filtered", "Query", "Snapshot", "Store", None)
