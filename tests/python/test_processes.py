"""Other processes: forks, pickling, a second writer, exits and kills."""

import os
import pickle
import signal
import subprocess
import sys
import time

import pytest
from conftest import open_store

import icecore


def in_child(body):
    """Forks; runs body() in the child; returns its exit code."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            body()
            code = 0
        except BaseException:  # told by the exit code
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def test_a_forked_child_is_refused_and_the_parent_goes_on(store, path):
    store[b"k"] = b"v" * 10_000
    iterator, view = iter(store), store.view(b"k")

    def child():
        for use in (
            lambda: store[b"k"],
            lambda: store.__setitem__(b"k", b""),
            lambda: store.tag(),
            lambda: len(store),
            lambda: next(iterator),
            lambda: store.put_many([b"a"], [b"b"]),
        ):
            with pytest.raises(icecore.ForkedError, match="open it again in the child") as raised:
                use()
            assert raised.value.code == 17
            assert isinstance(raised.value, RuntimeError)
        with pytest.raises(icecore.LockedError):
            open_store(path)
        assert bytes(view) == b"v" * 10_000, "views of the parent's values stay readable"
        store.close()

    assert in_child(child) == 0
    store[b"k2"] = b"v2"
    assert store == {b"k": b"v" * 10_000, b"k2": b"v2"}
    assert store.verify().ok


def test_a_with_block_around_a_fork_ends_well_in_both_processes(path):
    with open_store(path) as store:
        store[b"k"] = b"v"
        pid = os.fork()
        if pid == 0:
            try:
                with store:
                    pass
                del store
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        store[b"after"] = b"x"
    with open_store(path) as store:
        assert store == {b"k": b"v", b"after": b"x"}
        assert not store.stats().recovered_from_crash


def test_a_living_child_does_not_keep_the_parent_from_opening_again(path):
    store = open_store(path)
    store[b"k"] = b"v"
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    try:
        store.close()
        with open_store(path) as again:
            assert again[b"k"] == b"v"
    finally:
        os.write(writing, b"x")
        os.waitpid(pid, 0)
        os.close(reading)
        os.close(writing)


def test_a_child_opens_the_store_again_by_itself(path):
    with open_store(path) as store:
        store[b"k"] = b"v"

    def child():
        with open_store(path) as mine:
            assert mine[b"k"] == b"v"
            mine[b"child"] = b"was here"

    assert in_child(child) == 0
    with open_store(path, "r") as store:
        assert store[b"child"] == b"was here"


def test_what_a_store_tells_of_itself_can_be_pickled(store):
    for thing in (store.tag("t"), store.find_tag("t"), store.tags(), store.durability(), store.stats(), store.verify()):
        assert pickle.loads(pickle.dumps(thing)) == thing


def test_a_second_process_is_refused_with_the_holders_pid(store, path, run):
    run(
        """
        import icecore, sys
        for mode in ("a", "r"):
            try:
                icecore.open(sys.argv[1], mode, emulate_durability=True, beside_writer=False)
            except icecore.LockedError as e:
                assert sys.argv[2] in str(e), e
            else:
                raise AssertionError("two processes have the store open")
        """,
        path,
        os.getpid(),
    )


def test_a_store_left_open_is_closed_at_exit(path, run):
    run(
        """
        import icecore, sys
        store = icecore.open(sys.argv[1], emulate_durability=True)
        store[b"k"] = b"v"
        keep = [store, store.latest(), iter(store), store.items()]
        keep.append(keep)
        """,
        path,
    )
    with open_store(path) as store:
        assert store[b"k"] == b"v"
        assert not store.stats().recovered_from_crash


def test_threads_at_exit_do_not_crash(path, run):
    run(
        """
        import icecore, sys, threading
        store = icecore.open(sys.argv[1], emulate_durability=True)
        store.put_many([b"%d" % i for i in range(10000)], [b"v" * 100] * 10000)
        def work():
            while True:
                try:
                    store.latest().to_numpy()
                    len(store)
                except icecore.ClosedError:  # at exit; a daemon thread that prints then stops Python
                    return
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        """,
        path,
    )
    with open_store(path) as store:
        assert len(store) == 10_000


def test_a_killed_writer_loses_nothing_that_returned(path):
    code = """
import icecore, sys, itertools
store = icecore.open(sys.argv[1], emulate_durability=True)
for i in itertools.count():
    store[b"%08d" % i] = b"v" * (i % 200)
    if i % 100 == 0:
        store.tag(f"t{i}")
    print(i, flush=True)
"""
    writer = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
    last = -1
    end = time.monotonic() + 1.5
    for line in writer.stdout:
        if line.endswith("\n"):
            last = int(line)
        if time.monotonic() > end and last > 1000:
            writer.send_signal(signal.SIGKILL)
            break
    rest = writer.stdout.read()
    whole_lines = rest[: rest.rfind("\n") + 1].splitlines()  # the kill may have cut the last one
    last = int(whole_lines[-1]) if whole_lines else last
    writer.wait()
    with open_store(path) as store:
        assert store.stats().recovered_from_crash
        assert last < len(store) <= last + 2
        assert all(store[b"%08d" % i] == b"v" * (i % 200) for i in range(last + 1))
        assert {t.name for t in store.tags()} >= {f"t{i}" for i in range(0, last + 1, 100)}
        assert len(store.at(tag="t1000")) == 1001
        assert store.verify().ok


def test_ctrl_c_ends_a_long_put_many(path, run):
    run(
        """
        import icecore, numpy, signal, sys, threading, os, time
        store = icecore.open(sys.argv[1], durability="none")
        keys = numpy.arange(10_000_000, dtype=">u8")
        try:
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            store.put_many(keys, keys)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("not interrupted")
        assert 0 < len(store) < len(keys)
        store.close()
        """,
        path,
    )


def crc32c(data):
    """As roots have it: the plain register, without inversions."""
    register = 0
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register


def left_by_another_machine(image):
    """The image of a store that was left open, as a machine of another name and boot would have left it."""
    image = bytearray(image)
    for page in (0, 4096):
        if image[page : page + 7] != b"ICECORE":
            continue
        image[page + 104] ^= 1  # the boot's number
        image[page + 4092 : page + 4096] = crc32c(image[page : page + 4092]).to_bytes(4, "little")
    image[8192 + 72 : 8192 + 136] = b"node-7".ljust(64, b"\0")
    return bytes(image)


def test_what_another_machine_left_open_is_asked_about(path, tmp_path):
    with icecore.open(path, durability="tag", emulate_durability=True) as store:
        store[b"k"] = b"durable"
        store.tag("durable")
        store[b"k"] = b"not yet"
        with open(path, "rb") as file:
            image = left_by_another_machine(file.read())

    def left():
        with open(path, "wb") as file:
            file.write(image)

    left()
    for mode in ("r", "a"):
        with pytest.raises(icecore.CrashUnknownError, match="node-7"):
            open_store(path, mode)
    repaired = tmp_path / "repaired.ice"
    with pytest.raises(icecore.CrashUnknownError):
        icecore.repair(path, repaired)
    assert icecore.repair(path, repaired, crash="process").complete
    with open_store(path, crash="process") as store:
        assert store[b"k"] == b"not yet"
    left()
    with open_store(path, "r", crash="machine") as store:
        assert store[b"k"] == b"durable"
    with pytest.raises(icecore.InvalidArgumentError, match="power cut"):
        open_store(path, crash="power cut")
