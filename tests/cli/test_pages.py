"""Manual pages and what shells complete: made from what --help says, installed, and used as a shell uses them."""

import contextlib
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest
from conftest import command, filled, run, tag

BUILD = os.environ.get("ICECORE_BUILD")


def verbs_of(text):
    return re.findall(r"^  ([a-z]+) ", text.split("\nVerbs:\n")[1].split("\n\n")[0], re.MULTILINE)


def all_verbs():
    for verb in verbs_of(run("help").stdout.decode()):
        text = run("help", verb).stdout.decode()
        yield from ((verb, inner) for inner in verbs_of(text)) if "\nVerbs:\n" in text else [(verb,)]


def test_no_line_of_prose_in_help_is_longer_than_120_characters():
    for words in all_verbs():
        text = run("help", *words).stdout.decode()
        assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("  icecore ")] == []


def options_of(words):
    text = run("help", *words).stdout.decode()
    names = re.findall(r"^  (-[-\w,]+)", text, re.MULTILINE)
    return [option for name in names for option in name.split(",")]


@pytest.fixture(scope="module")
def share(tmp_path_factory):
    folder = tmp_path_factory.mktemp("share")
    run("help", "--write-pages", folder)
    return folder


@pytest.fixture
def environment(tmp_path):
    """Shells that find the command and nothing of this user's."""
    path = os.path.dirname(command()) + ":" + os.environ["PATH"]
    return {"PATH": path, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "TERM": "dumb"}


def needs(program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed (scripts/install-dependencies test)")


def rendered(page):
    done = subprocess.run(
        ["man", "--warnings", "--local-file", page],
        capture_output=True,
        check=True,
        env={**os.environ, "MANWIDTH": "200", "LC_ALL": "C.UTF-8"},
    )
    assert done.stderr == b"", done.stderr
    return re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout.decode())


def test_each_verb_has_a_manual_page_with_all_of_its_options(share):
    needs("man")
    folder = share / "man" / "man1"
    pages = {"icecore.1", "icecore-query.1"} | {f"icecore-{'-'.join(words)}.1" for words in all_verbs()}
    assert set(os.listdir(folder)) == pages
    for words in all_verbs():
        text = rendered(folder / f"icecore-{'-'.join(words)}.1")
        assert all(option in text for option in options_of(words))
        examples = run("help", *words).stdout.decode().split("Examples:\n")[1]
        for line in [line.strip() for line in examples.splitlines() if line.startswith("  icecore")]:
            assert line in text, line
    whole = rendered(folder / "icecore.1")
    assert "Exit codes" in whole and all(f"icecore-{words[0]}" in whole for words in all_verbs())


def bash(share, environment, line, cwd=None):
    """What bash would offer behind this line."""
    script = share / "bash-completion" / "completions" / "icecore"
    code = 'source "$1"; read -r -a COMP_WORDS <<<"$2"; [[ $2 == *" " ]] && COMP_WORDS+=(""); '
    code += 'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _icecore; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "--norc", "-c", code, "bash", script, line], capture_output=True, check=True, env=environment, cwd=cwd
    )
    assert done.stderr == b"", done.stderr
    return done.stdout.decode().split()


def fish(share, environment, line, cwd=None):
    script = share / "fish" / "vendor_completions.d" / "icecore.fish"
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"source {script}; complete -C {line!r}"],
        capture_output=True,
        check=True,
        env=environment,
        cwd=cwd,
    )
    assert done.stderr == b"", done.stderr
    return [offer.split("\t")[0] for offer in done.stdout.decode().splitlines()]


@pytest.mark.parametrize("shell", [bash, fish])
def test_shells_offer_verbs_options_values_files_and_tags(shell, share, environment, tmp_path):
    needs(shell.__name__)
    filled(str(tmp_path / "model.ice"), {b"key": b"value"}, tags=[tag(1, "epoch-1")])
    run("hold", tmp_path / "model.ice", "paper")
    os.mkdir(tmp_path / "folder")

    def offered(line):
        return sorted(shell(share, environment, line, tmp_path))

    assert offered("icecore ") == sorted(verbs_of(run("help").stdout.decode()))
    assert offered("icecore hi") == ["history"]
    assert offered("icecore query ") == sorted(verbs_of(run("help", "query").stdout.decode()))
    assert offered("icecore query sh") == ["show"]
    assert offered("icecore scan --lim") == ["--limit"]
    assert offered("icecore query start --ke") == ["--keep"]
    assert offered("icecore query start --keep ") == ["count", "keys"]
    assert offered("icecore scan model.ice -o ") == ["json", "table"]
    assert offered("icecore put --durability t") == ["tag"]
    assert offered("icecore get mod") == ["model.ice"]
    assert offered("icecore get --at epoch-1 mod") == ["model.ice"]
    assert "model.ice" not in offered("icecore get model.ice ")
    assert offered("icecore get model.ice key --at ") == ["epoch-1", "latest"]
    assert offered("icecore get model.ice key --at ep") == ["epoch-1"]
    assert offered("icecore diff model.ice e") == ["epoch-1"]
    assert offered("icecore diff model.ice latest e") == ["epoch-1"]
    assert [name.rstrip("/") for name in offered("icecore checkout model.ice f")] == ["folder"]
    assert offered("icecore hold model.ice paper --at ") == ["epoch-1", "latest"]
    assert offered("icecore release model.ice ") == ["paper"]
    assert offered("icecore release model.ice pa") == ["paper"]
    assert offered("icecore release model.ice la") == []
    assert offered("icecore completion z") == ["zsh"]
    for words in all_verbs():
        wanted = [option for option in options_of(words) if option.startswith("--")]
        missing = set(wanted) - set(offered(f"icecore {' '.join(words)} --"))
        assert not missing, (words, missing)


def test_zsh_completes_what_is_typed(share, environment, tmp_path):
    needs("zsh")
    filled(str(tmp_path / "model.ice"), {b"key": b"value"}, tags=[tag(1, "epoch-1")])
    run("hold", tmp_path / "model.ice", "paper")
    parent, child = pty.openpty()
    with (
        subprocess.Popen(
            ["zsh", "-f", "-i"],
            stdin=child,
            stdout=child,
            stderr=child,
            env=environment,
            cwd=tmp_path,
            start_new_session=True,
        ) as shell,
        contextlib.ExitStack() as ends,
    ):
        ends.callback(shell.kill)  # also where the test fails
        os.close(child)

        def until(wanted):
            shown = b""
            end = time.monotonic() + 30
            while wanted not in shown:
                assert time.monotonic() < end, shown
                if select.select([parent], [], [], 0.1)[0]:
                    shown += os.read(parent, 65536)

        script = share / "zsh" / "site-functions"
        os.write(parent, f"PS1='> '; unsetopt zle_bracketed_paste; fpath=({script} $fpath)\n".encode())
        os.write(parent, b"autoload -U compinit; compinit -u -D; echo rea''dy\n")
        until(b"ready\r\n")
        for typed, wanted in (
            (b"icecore hist\t", b"history "),
            (b"icecore scan --rev\t", b"--reverse "),
            (b"icecore query start --ke\t", b"--keep "),
            (b"icecore scan mod\t", b"model.ice "),
            (b"icecore get model.ice key --at ep\t", b"epoch-1 "),
            (b"icecore release model.ice pa\t", b"paper "),
            (b"icecore put --durability oper\t", b"operation "),
        ):
            os.write(parent, typed)
            until(wanted)
            os.write(parent, b"\x15")  # the line is not run
        os.write(parent, b"\nexit\n")
        shell.wait(timeout=30)
    os.close(parent)


def test_completion_prints_what_is_installed(share):
    for shell, path in (
        ("bash", "bash-completion/completions/icecore"),
        ("zsh", "zsh/site-functions/_icecore"),
        ("fish", "fish/vendor_completions.d/icecore.fish"),
    ):
        assert run("completion", shell).stdout == (share / path).read_bytes()


def test_names_that_a_shell_could_misread_are_not_offered(store):
    names = ["plain", "with space", "$(rm -rf .)", "a;b", "x/y"]
    filled(store, {b"k": b"v"}, clock=9, tags=[tag(n, name) for n, name in enumerate(names, 1)])
    for n, name in enumerate(names, 1):
        run("hold", store, "held-" + name, "--at", str(n))
    assert run("completion", "tags", store).stdout == b"plain\nx/y\n"
    assert run("completion", "holds", store).stdout == b"held-plain\nheld-x/y\n"
    for what in ("tags", "holds"):
        assert f"completion {what}: STORE is missing".encode() in run("completion", what, code=2).stderr


def test_cmake_installs_them(share, tmp_path):
    if not BUILD:
        pytest.skip("ICECORE_BUILD names no build folder")
    subprocess.run(
        ["cmake", "--install", BUILD, "--prefix", tmp_path, "--component", "runtime"], check=True, capture_output=True
    )

    def files(folder):
        return sorted(
            os.path.relpath(os.path.join(root, name), folder) for root, _, names in os.walk(folder) for name in names
        )

    installed = [name for name in files(tmp_path / "share") if not name.startswith("doc/")]  # what a package must have
    assert installed == files(share)
    for name in files(share):
        assert (tmp_path / "share" / name).read_bytes() == (share / name).read_bytes(), name
