"""Every error: which class, which built-in, which number, which errno, and words that help."""

import errno
import os
import pickle
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from conftest import open_store

import icecore
from icecore import Errc

ROOT = Path(__file__).parents[2]
HEADER = ROOT / "include/icecore/error.hpp"


def classes():
    return [
        c for c in vars(icecore).values() if isinstance(c, type) and issubclass(c, icecore.Error) and hasattr(c, "code")
    ]


def test_numbers_and_names_are_those_of_the_cpp_header():
    reported = re.findall(r"^  (\w+) = (\d+),", HEADER.read_text(), re.MULTILINE)
    errc = {name: int(number) for name, number in reported}
    assert len(errc) >= 23
    assert {e.name.lower(): int(e) for e in Errc} == errc
    assert sorted(c.code for c in classes()) == sorted(errc.values()), "one class for each number"


@pytest.mark.parametrize("made", classes(), ids=lambda c: c.__name__)
def test_errors_carry_code_message_and_errno_and_can_be_pickled(made):
    from icecore.errors import error_of

    error = error_of(int(made.code), "what, where, what to do")
    assert type(error) is made
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert type(one) is made
        assert one.code == made.code
        assert str(one) == "what, where, what to do"
        if issubclass(made, OSError):
            assert isinstance(one, icecore.StorageError)
            assert one.errno > 0
            assert one.strerror == "what, where, what to do"


def test_an_unknown_number_is_still_an_error():
    from icecore.errors import error_of

    assert type(error_of(999, "from the future")) is icecore.Error


def fails(expected, code, call, builtin, match="."):
    with pytest.raises(expected, match=match) as raised:
        call()
    assert raised.value.code == code
    assert isinstance(raised.value, builtin)
    assert isinstance(raised.value, icecore.Error)
    return raised.value


def test_modes_of_opening(path):
    missing = fails(icecore.NoSuchStoreError, 20, lambda: open_store(path, "r"), FileNotFoundError, "store.ice")
    assert missing.errno == errno.ENOENT
    fails(icecore.NoSuchStoreError, 20, lambda: open_store(path, "r+"), FileNotFoundError)
    assert not path.exists()
    open_store(path, "x").close()
    there = fails(icecore.StoreExistsError, 21, lambda: open_store(path, "x"), FileExistsError)
    assert there.errno == errno.EEXIST
    with open_store(path, "r+") as store:
        store[b"k"] = b"v"
    with open_store(path, "a") as store:
        assert store[b"k"] == b"v"
        assert not store.read_only
    for mode in ("w", "rw", "", None, 5):
        fails(icecore.InvalidArgumentError, 1, lambda m=mode: open_store(path, m), ValueError, "mode")
    fails(icecore.InvalidArgumentError, 1, lambda: open_store(path, durability="always"), ValueError, "best_available")
    fails(icecore.InvalidArgumentError, 1, lambda: open_store("a\0b"), ValueError, "NUL")
    with pytest.raises(TypeError):
        icecore.open(5.5)


def test_paths_may_be_str_bytes_or_path_like_and_need_not_be_utf8(tmp_path):
    for path in (
        str(tmp_path / "a"),
        os.fsencode(tmp_path / "b"),
        tmp_path / "c",
        os.fsencode(tmp_path) + b"/\xff\xfe",
    ):
        with open_store(path) as store:
            store[b"k"] = b"v"
            assert os.fsencode(store.path) == os.fsencode(path)
            assert store.latest().path == store.path
            assert os.fsencode(store.stats().path) == os.fsencode(path)
        assert icecore.verify_file(path).ok


def test_a_reader_cannot_write(path):
    with open_store(path) as store:
        store[b"k"] = b"v"
    with open_store(path, "r") as reader, open_store(path, "r") as second:
        assert reader == second == {b"k": b"v"}
        for write in (
            lambda: reader.__setitem__(b"k", b""),
            lambda: reader.__delitem__(b"k"),
            lambda: reader.put_many([b"a"], [b"b"]),
            lambda: reader.tag("x"),
        ):
            assert fails(icecore.ReadOnlyError, 15, write, OSError).errno == errno.EROFS
        with pytest.raises(icecore.ReadOnlyError), reader.batch() as b:
            b[b"k"] = b""
        assert len(reader) == 1


def test_a_second_opening_in_this_process_is_refused_with_the_reason(store, path):
    error = fails(icecore.LockedError, 8, lambda: open_store(path), BlockingIOError, "this process has it open")
    assert error.errno == errno.EAGAIN
    fails(icecore.LockedError, 8, lambda: open_store(path, "r", beside_writer=False), OSError)


def test_what_is_no_store_is_refused(tmp_path):
    (tmp_path / "text").write_text("hello " * 20_000)
    fails(icecore.NotAStoreError, 4, lambda: open_store(tmp_path / "text"), OSError)
    fails(icecore.NotAStoreError, 4, lambda: open_store(tmp_path), OSError)
    with pytest.raises(OSError):
        open_store(tmp_path / "no such folder" / "store")
    with pytest.raises(icecore.NotAStoreError):
        icecore.verify_file(tmp_path / "text")


def test_a_file_without_permission(path, run):
    open_store(path).close()
    path.chmod(0)
    run(
        """
        import errno, icecore, os, sys
        if os.geteuid() == 0:
            os.seteuid(65534)  # root may read everything
        for mode in ("r", "a"):
            try:
                icecore.open(sys.argv[1], mode)
            except PermissionError as e:
                assert type(e) is icecore.PermissionDeniedError
                assert e.errno == errno.EACCES
                assert e.code == 23
            else:
                raise AssertionError("a file without permission was opened")
        """,
        path,
    )


def test_a_damaged_file_is_an_error_or_a_report_never_a_wrong_answer(path):
    with open_store(path) as store:
        for i in range(100):
            store[b"key %03d" % i] = b"value %03d" % i
    content = bytearray(path.read_bytes())
    place = content.index(b"value 050")
    content[place] ^= 1
    path.write_bytes(content)
    report = icecore.verify_file(path)
    assert not report
    assert not report.ok
    assert any(d.offset <= place and d.what for d in report.damages)
    fails(icecore.DamagedError, 6, lambda: open_store(path), OSError)


def test_a_damaged_file_is_read_and_repaired_without_what_is_lost(path, tmp_path):
    with open_store(path) as store:
        for i in range(100):
            store[b"key %03d" % i] = b"value %03d" % i
        store.tag()
        store[b"key 050"] = b"changed 050"
        store.tag()
    content = bytearray(path.read_bytes())
    content[content.index(b"changed 050")] ^= 1
    path.write_bytes(content)
    with open_store(path, "r", accept_damage=True) as store:
        fails(icecore.DamagedError, 6, lambda: store[b"key 050"], OSError)
        assert store.at(1)[b"key 050"] == b"value 050"
        assert store[b"key 049"] == b"value 049"
    fails(icecore.InvalidArgumentError, 1, lambda: open_store(path, accept_damage=True), ValueError)
    repaired = tmp_path / "repaired.ice"
    report = icecore.repair(path, repaired)
    assert not report
    assert not report.complete
    assert [(d.key, d.version) for d in report.losses] == [(b"key 050", 2)]
    assert report.unknown == [icecore.UnknownVersions(b"key 050", 2, 3)]
    assert (report.keys, report.records, report.repaired) == (100, 100, [])
    with open_store(repaired) as store:
        assert b"key 050" not in store
        assert store.at(1)[b"key 050"] == b"value 050"
        assert len(store) == 99
    fails(icecore.StoreExistsError, 21, lambda: icecore.repair(path, repaired), OSError)
    assert icecore.repair(repaired, tmp_path / "again.ice")


def test_a_copy_made_under_a_living_writer_is_refused_unless_accepted(store, path):
    store[b"k"] = b"v"
    store.sync()
    copied = path.with_name("copy.ice")
    shutil.copy(path, copied)
    fails(icecore.CopiedError, 19, lambda: open_store(copied), OSError)
    with open_store(copied, accept_copy=True) as copy:
        assert copy == {b"k": b"v"}


def test_limits_of_keys_and_values(store):
    store[b"k" * 65_535] = b"long"
    assert store[b"k" * 65_535] == b"long"
    for call in (
        lambda: store.__setitem__(b"k" * 65_536, b""),
        lambda: store.batch().__enter__().__setitem__(b"k" * 65_536, b""),
        lambda: store.put_many([b"k" * 65_536], [b""]),
    ):
        fails(icecore.KeyTooLongError, 2, call, ValueError, "65,?53[56]")
    assert store.get(b"k" * 70_000) is None
    assert b"k" * 70_000 not in store
    store.tag("n" * 65_535)
    assert store.find_tag("n" * 65_535) is not None
    fails(icecore.Error, 1, lambda: store.tag("n" * 65_536), ValueError)


def test_a_full_device_is_an_error_and_the_store_stays_readable(run, path):
    printed = run(
        """
        import resource, signal, sys, errno, icecore
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        store = icecore.open(sys.argv[1], durability="none")
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 << 20, 8 << 20))
        written = 0
        try:
            while True:
                store[b"%06d" % written] = bytes(50_000)
                written += 1
        except icecore.NoSpaceError as e:
            assert e.errno == errno.ENOSPC, e.errno
            assert e.code == icecore.Errc.NO_SPACE
        assert written > 50
        assert len(store) == written
        assert store[b"%06d" % (written - 1)] == bytes(50_000)
        store.close()
        print(written)
        """,
        path,
    )
    with open_store(path) as store:
        assert len(store) == int(printed)


def test_a_progress_function_that_raises_is_heard_after_the_call(store):
    for i in range(32):  # what is done in no time is not told of
        store[b"%d" % i] = bytes(8 << 20)
    reported = []
    assert store.verify(lambda *progress: reported.append(progress)).ok
    assert reported
    for what, done, total, unit in reported:
        assert isinstance(what, str)
        assert isinstance(unit, str)
        assert done <= total or total == 0

    def fail(*progress):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.verify(fail)
    with pytest.raises(icecore.InvalidArgumentError, match="inside another call"):
        store.verify(lambda *progress: store.close())
    assert store.view(b"1") == bytes(8 << 20)


# ---- Messages in the words of Python -----------------------------------------------------------------------------------


def test_each_wording_is_of_a_message_that_the_library_has():
    from icecore.wording import WORDINGS

    joined = re.compile(r'"\s*\n\s*"')  # a message of several literals
    texts = [joined.sub("", source.read_text()) for source in (ROOT / "src").rglob("*.cpp")]
    for library in WORDINGS:
        assert any(library in text for text in texts), f"no message says {library!r}: take it away"


def test_no_message_of_the_page_of_errors_speaks_of_other_languages():
    from icecore.errors import error_of

    page = (ROOT / "docs/errors.md").read_text()
    rows = re.findall(r"^\| [^|]+ \| (\d+) [^|]+ \| `(.+)` \|$", page, re.MULTILINE)
    assert len(rows) > 30
    for code, message in rows:
        assert not re.search(r"options::|read_write|creation allowed|--\w|ask for", str(error_of(int(code), message)))


def test_messages_name_what_a_python_program_writes(path):
    fails(icecore.NoSuchStoreError, 20, lambda: open_store(path, "r"), FileNotFoundError, "mode 'a' or 'x' makes one$")
    path.touch()
    fails(icecore.NotAStoreError, 4, lambda: open_store(path, "r"), OSError, "is empty; mode 'a' makes a store of it$")
    path.unlink()
    open_store(path).close()
    with open_store(path, "r") as store:
        fails(icecore.ReadOnlyError, 15, lambda: store.insert("k", "v"), OSError, r"reading only \(mode 'r'\)$")
    if Path("/dev/shm").is_dir():
        with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
            made = lambda: icecore.open(f"{memory}/store.ice", durability="tag")  # noqa: E731
            fails(icecore.NotDurableError, 11, made, OSError, "durability='none', or emulate_durability=True$")
