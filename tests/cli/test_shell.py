"""shell: many verbs on one open store, from a script and from a terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import time

from conftest import command, run


def shell(store, script, *arguments, code=0):
    done = subprocess.run(
        [command(), "shell", store, *arguments], input=script.encode(), capture_output=True, timeout=120
    )
    assert done.returncode == code, done.stderr.decode()
    return done


class terminal:
    """A shell on a terminal, and what stands there."""

    def __init__(self, store, *arguments, history=""):
        environment = {**os.environ, "TERM": "dumb", "ICECORE_HISTORY": history}
        self.process, self.screen = pty.fork()
        if self.process == 0:
            os.execve(command(), [command(), "shell", store, *arguments], environment)
        self.text = ""

    def await_text(self, wanted):
        deadline = time.monotonic() + 60
        while not re.search(wanted, self.text):
            assert time.monotonic() < deadline, (wanted, self.text)
            if select.select([self.screen], [], [], 0.1)[0]:
                self.text += os.read(self.screen, 1 << 16).decode(errors="replace")
        found = re.search(wanted, self.text)
        self.text = self.text[found.end() :]
        return found

    def type(self, text):
        os.write(self.screen, text.encode())

    def end(self):
        self.type("exit\n")
        code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        os.close(self.screen)
        return code


def test_a_script_writes_and_reads_one_open_store(store):
    done = shell(
        store,
        """
        # what a session does
        put layer1/bias 0.5
        put 'a key' "a \\"value\\""
        tag one --note 'first of all'
        put layer1/bias 0.7
        get layer1/bias
        get layer1/bias --at one
        at one
        get layer1/bias
        at
        at latest
        get layer1/bias
        get 'a key'
        scan --prefix layer1/
        exit
        put never reached
        """,
        "--write",
    )
    assert done.stdout == b'1\n0.70.50.51\n0.7a "value"layer1/bias\t0.7\n'
    assert run("get", store, "layer1/bias").stdout == b"0.7"
    assert run("get", store, "a key").stdout == b'a "value"'
    assert run("get", store, "layer1/bias", "--at", "one").stdout == b"0.5"
    assert run("get", store, "never", code=1).stdout == b""


def test_the_version_that_is_set_holds_for_verbs_that_name_none(store):
    run("put", store, "a", "1")
    run("tag", store, "one")
    run("put", store, "a", "2")
    run("tag", store, "two")
    assert shell(store, "get a\nat one\nget a\nget a --at two\nat\nat latest\nget a\n").stdout == b"2121\n2"
    assert shell(store, "get a\n", "--at", "one").stdout == b"1"
    assert b"no version or tag" in shell(store, "at none\n", code=11).stderr


def test_a_script_ends_with_its_first_failure(store):
    run("put", store, "a", "1")
    done = shell(store, "get a\nget a --at none\nget a\n", code=11)
    assert done.stdout == b"1"
    assert b"line 2: get a --at none" in done.stderr
    done = shell(store, "get a\nget a --at none\nput b 2\nget a\n", "--keep-going", code=11)
    assert done.stdout == b"11"
    assert shell(store, "get none\nget a\n").stdout == b"1", "nothing found is no failure"
    assert b"quotes" in shell(store, "get 'a\n", code=2).stderr
    assert b"nearest is 'get'; see `help`\n" in shell(store, "gett a\n", code=2).stderr
    assert b"KEY is missing; see `help get`\n" in shell(store, "get\n", code=2).stderr
    assert b"see `help query start`\n" in shell(store, "query start\n", code=2).stderr
    assert b"icecore query start " in shell(store, "help query start\n").stdout
    assert b"not in a shell" in shell(store, "reindex x --index btree\n", code=2).stderr
    assert b"not in a shell" in shell(store, "shell x\n", code=2).stderr


def test_without_write_it_only_reads_and_with_never_locks_it_keeps_nobody_out(store):
    run("put", store, "a", "1")
    assert b"--write" in shell(store, "put a 2\n", code=2).stderr
    with subprocess.Popen([command(), "shell", store, "--never-locks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader:
        reader.stdin.write(b"get a\n")
        reader.stdin.flush()
        assert reader.stdout.read(1) == b"1"
        run("put", store, "a", "2")
        reader.stdin.write(b"get a\nhistory a -o json\n")
        reader.stdin.close()
        assert reader.stdout.read().startswith(b"2")
        assert reader.wait() == 0
    for reading in ("--never-locks", "--accept-copy", "--accept-damage"):
        assert reading.encode() + b" is for reading: not with --write" in shell(store, "", "--write", reading, code=2).stderr
    with subprocess.Popen([command(), "shell", store, "--write"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        writer.stdin.write(b"get a\n")
        writer.stdin.flush()
        assert writer.stdout.read(1) == b"2"
        run("put", store, "b", "x", code=4)
        writer.stdin.close()
        assert writer.wait() == 0
    run("put", store, "b", "x")


def test_a_store_that_was_packed_is_opened_again(store):
    run("put", store, "a", "1")
    with subprocess.Popen(
        [command(), "shell", store, "--never-locks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:

        def ask(line, wanted):
            reader.stdin.write(line)
            reader.stdin.flush()
            assert reader.stdout.read(len(wanted)) == wanted

        ask(b"get a\n", b"1")
        run("compact", store)
        ask(b"get a\n", b"1")
        run("put", store, "a", "2")
        run("tag", store, "two")
        run("compact", store)
        ask(b"at two\nget a\n", b"2")
        run("put", store, "a", "3")
        run("compact", store)
        ask(b"get a\nat latest\nget a\n", b"23")
        reader.stdin.close()
        assert reader.wait() == 0


def test_on_a_terminal_errors_end_nothing_and_words_are_completed(store, tmp_path):
    run("put", store, "layer1/bias", "0.5")
    run("tag", store, "epoch-1")
    history = str(tmp_path / "state" / "history")
    with_history = terminal(store, history=history)
    with_history.await_text("icecore> ")
    with_history.type("get la\t\n")
    with_history.await_text("0.5")
    with_history.type("get none --at nothing\n")
    with_history.await_text("no version or tag")
    with_history.type("at epo\t\n")
    with_history.await_text("icecore at 1> ")
    with_history.type("lo\t\n")
    with_history.await_text("epoch-1")
    assert with_history.end() == 0
    with open(history) as lines_typed:
        kept = lines_typed.read().replace("\\040", " ")
    assert "get layer1/bias" in kept and "at epoch-1" in kept
    assert os.stat(history).st_mode & 0o077 == 0


def test_an_interrupt_ends_the_verb_and_not_the_shell(store):
    run("put", store, "a", "1")
    typed = terminal(store)
    typed.await_text("icecore> ")
    typed.type("watch --since 0\n")
    typed.await_text(r"a\s+1")
    os.kill(typed.process, signal.SIGINT)
    typed.await_text("icecore> ")
    typed.type("get a\n")
    typed.await_text("1")
    typed.type("watch --since 0\n")
    typed.await_text(r"a\s+1")
    os.kill(typed.process, signal.SIGINT)
    typed.await_text("icecore> ")
    assert typed.end() == 0
