"""diff --patch, colours, the pager, log --graph."""

import os
import pty
import select
import subprocess
import time

import pytest
from conftest import command, items, lines, run
from git_repositories import ENVIRONMENT


def on_terminal(*arguments, answer=b"", **variables):
    """What a command writes to a terminal, and its exit code."""
    parent, child = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **variables}
    for unset in [name for name, value in variables.items() if value is None]:
        del environment[unset]
    with subprocess.Popen(
        [command(), *arguments], stdin=child, stdout=child, stderr=child, env=environment, start_new_session=True
    ) as process:
        os.close(child)
        shown = b""
        if answer:
            os.write(parent, answer)
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if not select.select([parent], [], [], 0.05)[0]:
                continue
            try:
                more = os.read(parent, 65536)
            except OSError:  # the other side is closed
                break
            if not more:
                break
            shown += more
        code = process.wait(timeout=30)
    os.close(parent)
    return shown, code


def write_tree(folder, store, *view):
    os.mkdir(folder)
    for key, value in items(store, *view):
        path = os.path.join(os.fsencode(folder), key)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(value)


def tree_of(folder):
    found = []
    for root, _, names in os.walk(os.fsencode(folder)):
        for name in names:
            path = os.path.join(root, name)
            with open(path, "rb") as file:
                found.append((os.path.relpath(path, os.fsencode(folder)), file.read()))
    return sorted(found)


def test_a_patch_is_applied_by_git(store, tmp_path, rng):
    """git apply turns the files of one version into those of the other."""
    words = [
        b"one",
        b"two",
        b"three",
        "fünf".encode(),
        b"",
        b"tab\there",
        b"\\ No newline at end of file",
        b"-x",
        b"+y",
    ]
    names = [
        b"plain",
        b"a b",
        b'quote"d',
        b"back\\slash",
        b"tab\tname",
        "ü".encode(),
        b"dir/inner",
        b"\xff",
        b"new\nline",
    ]

    def some_text():
        ended = rng.choice([b"\n", b""])
        return b"\n".join(rng.choice(words) for _ in range(rng.randrange(40))) + ended

    for version in ("one", "two"):
        for name in names:
            if rng.random() < 0.8:
                run("put", store, "--", name, "-", stdin=some_text())
            else:
                run("put", store, "--", name, "")
        if version == "two":
            run("del", store, "plain")
        run("put", store, version, "only here")
        run("tag", store, version)
    for before, after in (("one", "two"), ("two", "one"), ("0", "one"), ("two", "0")):
        folder = tmp_path / f"{before}-{after}"
        write_tree(folder, store, "--at", before)
        patch = run("diff", store, before, after, "--patch", code=1).stdout
        done = subprocess.run(
            ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"],
            input=patch,
            cwd=folder,
            capture_output=True,
            env={**ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(tmp_path)},
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace") + patch.decode(errors="replace")
        assert tree_of(folder) == sorted(items(store, "--at", after))


@pytest.fixture
def changed(store):
    run("put", store, "text", "".join(f"line {n}\n" for n in range(20)))
    run("put", store, "bytes", "-", stdin=b"\0\1")
    run("put", store, "goes", "x")
    run("tag", store, "one", "--time", "2024-05-01")
    run("put", store, "text", "".join(f"line {n}\n" if n != 10 else "changed\n" for n in range(20)))
    run("put", store, "bytes", "-", stdin=b"\0\1\2")
    run("del", store, "goes")
    run("put", store, "fresh", "")
    run("tag", store, "two", "--time", "2024-05-02")
    return store


PATCH = b"""diff --git a/bytes b/bytes
Binary files a/bytes and b/bytes differ: 2 and 3 bytes
diff --git a/fresh b/fresh
new file mode 100644
diff --git a/goes b/goes
deleted file mode 100644
--- a/goes
+++ /dev/null
@@ -1 +0,0 @@
-x
\\ No newline at end of file
diff --git a/text b/text
--- a/text
+++ b/text
@@ -10,3 +10,3 @@ line 8
 line 9
-line 10
+changed
 line 11
"""


def test_a_patch_shows_lines_and_says_what_is_binary(changed):
    assert run("diff", changed, "one", "--patch", "-U", "1", code=1).stdout == PATCH
    assert run("diff", changed, "two", "--patch", code=0).stdout == b""
    assert b"@@ -8,7 +8,7 @@" in run("diff", changed, "one", "-p", code=1).stdout
    assert b"does not go with" in run("diff", changed, "one", "-p", "--stat", code=2).stderr


def test_no_control_character_of_a_value_reaches_a_terminal(store):
    run("put", store, "esc\x1b[31m\x9b31m\x7f", "\x1b[2J")
    run("put", store, "text", "\x9b31m and \x7f")
    run("put", store, "bytes", "-", stdin=b"\x9b31m")
    shown = run("diff", store, "0", "-p", code=1).stdout
    assert shown.isascii() and b"\x1b" not in shown and b"\x7f" not in shown


def test_colours_are_for_terminals_and_can_be_refused(changed):
    plain = run("diff", changed, "one", code=1).stdout
    assert b"\x1b" not in plain
    coloured = run("diff", changed, "one", "--color", "always", code=1).stdout
    assert b"\x1b[32m+ fresh\x1b[0m\n" in coloured and b"\x1b[31m- goes\x1b[0m\n" in coloured
    assert b"\x1b[33m~ text\x1b[0m\n" in coloured
    shown, code = on_terminal("diff", changed, "one", NO_COLOR=None)
    assert code == 1 and b"\x1b[32m+ fresh" in shown
    assert b"\x1b[32m" in on_terminal("diff", changed, "one", NO_COLOR="")[0]
    for refused in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert b"\x1b" not in on_terminal("diff", changed, "one", **refused)[0]
    assert b"\x1b" not in on_terminal("diff", changed, "one", "--color", "never")[0]
    patch = run("diff", changed, "one", "-p", "--color", "always", code=1).stdout
    assert b"\x1b[31m-line 10\x1b[0m\n\x1b[32m+changed\x1b[0m\n" in patch and b"\n line 9\n" in patch


def test_a_patch_on_a_terminal_goes_through_the_pager(changed, tmp_path):
    paged = tmp_path / "paged"
    shown, code = on_terminal("diff", changed, "one", "-p", "--color", "never", PAGER=f"cat > {paged}; echo left")
    assert code == 1 and shown == b"left\r\n"
    assert paged.read_bytes() == run("diff", changed, "one", "-p", code=1).stdout
    # Not where nobody wants it.
    for arguments, pager in ((("--no-pager",), f"cat > {paged}"), ((), ""), ((), "cat")):
        shown, code = on_terminal("diff", changed, "one", "-p", "--color", "never", *arguments, PAGER=pager)
        assert code == 1 and shown.replace(b"\r\n", b"\n") == run("diff", changed, "one", "-p", code=1).stdout


def test_a_pager_that_is_left_early_is_no_failure(store):
    for number in range(30):
        run("put", store, str(number), "-", stdin=b"line\n" * 20_000)
    shown, code = on_terminal("diff", store, "0", "-p", PAGER="head -n 1")
    assert code == 0 and b"diff --git a/0 b/0" in shown and b"icecore:" not in shown


def test_the_graph_shows_the_bytes_of_each_version(changed, monkeypatch):
    found = {t["name"]: t["bytes"] for t in lines("log", changed, "--graph", "--json")}
    text = sum(len(f"line {n}\n") for n in range(20))
    assert found == {
        "one": len("text") + text + len("bytes") + 2 + len("goes") + 1,
        "two": len("text") + text - len("line 10\n") + len("changed\n") + len("bytes") + 3 + len("goes") + len("fresh"),
    }
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    table = run("log", changed, "--graph").stdout.decode()
    assert "bytes by version" in table and "in 2 versions" in table
    assert table.split("\n\n")[1].startswith("██\n")
    monkeypatch.setenv("LC_ALL", "C")
    assert run("log", changed, "--graph").stdout.isascii()
    assert lines("log", changed, "--graph", "--json", "--limit", "1")[0]["name"] == "two"
    assert "bytes" not in lines("log", changed, "--json")[0]


def test_the_graph_is_as_high_as_the_bytes(store, monkeypatch):
    for size in (1000, 0, 500, 250):
        run("put", store, "k", "v" * size) if size else None
        run("tag", store)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    assert run("log", store, "--graph").stdout.decode().split("\n\n")[1].splitlines()[0] == "█ ▅▃"


def test_patches_as_json_are_those_that_are_printed(store):
    run("put", store, "changed", "-", stdin=b"one\ntwo\n")
    run("put", store, "gone", "x")
    run("put", store, b"\xff", b"\xfe")
    run("tag", store, "before")
    run("put", store, "changed", "-", stdin=b"one\nthree\n")
    run("put", store, "new\t\"", "x")
    run("del", store, "gone")
    run("put", store, b"\xff", b"\xfd")
    printed = run("diff", store, "before", "--patch", "-U", "1", code=1).stdout
    for more in ((), ("--color", "always")):
        told = lines("diff", store, "before", "--patch", "-U", "1", "--json", *more, code=1)
        assert [(one["change"], one["key"]) for one in told] == [
            ("changed", "changed"),
            ("removed", "gone"),
            ("added", "new\t\""),
            ("changed", {"base64": "/w=="}),
        ]
        assert "".join(one["patch"] for one in told).encode() == printed
    assert b"-two\n+three\n" in printed and b"Binary files" in printed


def test_an_explanation_as_json_is_the_one_that_is_printed(store):
    run("put", store, "k", "v")
    printed = run("filter", store, "starts_with(key, 'a') and length(value) > 2", "--explain").stdout.decode()
    assert lines("filter", store, "starts_with(key, 'a') and length(value) > 2", "--explain", "--json") == [
        {"explained": printed.removesuffix("\n")}
    ]
