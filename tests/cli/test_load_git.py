"""load --git: what a store holds of a repository, compared with a model and with git itself."""

import os
import subprocess
import sys

import pytest
from conftest import PROJECT, command, filled, history, insert, items, lines, run, tag, dump_of, to_bytes
from git_repositories import ENVIRONMENT, EXECUTABLE, FILE, LINK, SUBMODULE, Repository, git, random_repository

CHECKER = PROJECT / "tools" / "check-git-snapshots"
SEARCHER = PROJECT / "tools" / "check-git-queries"


def check_with_git(store, repository, *arguments):
    return subprocess.run(
        [sys.executable, "-B", CHECKER, store, repository, "--icecore", command(), *arguments],
        capture_output=True,
        check=False,
        env=ENVIRONMENT,
    )


def summary_of(store, repository, *arguments):
    return lines("load", store, "--git", repository, "-o", "json", *arguments)[0]


def values(tree):
    return sorted((path, content) for path, (_, content) in tree.items())


def expected_histories(commits):
    """Version n is commit n: oldest first, each path's changes."""
    found = {}
    for version, commit in enumerate(commits, 1):
        for path, entry in commit["changes"].items():
            found.setdefault(path, []).append((version, None if entry is None else entry[1]))
    return found


def check_against_model(store, commits):
    tags = lines("log", store, "--reverse", "-o", "json")
    assert [t["name"] for t in tags] == [c["hash"] for c in commits]
    assert [t["time_ns"] for t in tags] == [c["time"] * 10**9 for c in commits]
    assert [t["version"] for t in tags] == list(range(1, len(commits) + 1))
    assert [to_bytes(t["note"]) for t in tags] == [
        c["subject"].split(b"\n\n")[0].replace(b"\n", b" ").strip() for c in commits
    ]
    for commit in commits:
        assert items(store, "--at", commit["hash"]) == values(commit["tree"])
    for path, records in expected_histories(commits).items():
        assert history(store, path, "--reverse") == records


@pytest.mark.parametrize("seed", range(3))
def test_every_commit_is_a_tag_and_every_changed_path_a_record(store, tmp_path, rng, seed):
    repository = random_repository(tmp_path / "repository", rng, commits=40)
    kinds = {entry[0] for c in repository.commits for entry in c["tree"].values()}
    assert kinds == {FILE, EXECUTABLE, LINK, SUBMODULE}
    summary = summary_of(store, repository.path)
    assert summary["commits"] == 40 and summary["complete"] and summary["commits_before"] == 0
    assert summary["paths"] == sum(len(c["changes"]) for c in repository.commits)
    assert (
        summary["bytes"]
        == summary["git_unpacked_bytes"]
        == sum(len(e[1]) for c in repository.commits for e in c["changes"].values() if e)
    )
    check_against_model(store, repository.commits)
    checked = check_with_git(store, repository.path, "--snapshots", "40")
    assert checked.returncode == 0, checked
    run("verify", store)


SUBJECTS = [
    b"plain",
    b"  leading and trailing  ",
    b"\n\n \t\nafter blank lines",
    b"two\n  lines, indented \t\r\nand a third\n\nbody",
    b"tab\tand  two spaces",
    b"body after a line of white space\n \t \nbody",
    b"\xff\xfe not UTF-8",
    "ünïcode\u00a0space\u2028line".encode(),
    b"\x0c\x0bform feed\x0c",
    b"\x1b[31mred",
    b"",
    b" \n\t\n",
    b"s" * 70_000,
]


def test_subjects_are_those_of_git_byte_for_byte(store, tmp_path):
    repository = Repository(tmp_path / "repository")
    for number, subject in enumerate(SUBJECTS):
        repository.commit({b"file": (FILE, b"%d" % number)}, subject)
    repository.finish()
    run("load", store, "--git", repository.path)
    shown = git(repository.path, "log", "--first-parent", "--encoding=none", "--format=%s%x00", "main")
    wanted = [subject.removeprefix(b"\n")[:65_535] for subject in shown.split(b"\0")[:-1]]
    assert [to_bytes(t["note"]) for t in lines("log", store, "-o", "json")] == wanted
    assert wanted[-1] == b"plain" and wanted[-4] == b"two   lines, indented and a third"


def test_packed_bytes_are_those_of_the_files_of_git(store, tmp_path, rng):
    repository = random_repository(tmp_path / "repository", rng, commits=20)

    def bytes_of(folder):
        return sum(os.path.getsize(os.path.join(root, name)) for root, _, names in os.walk(folder) for name in names)

    summary = summary_of(store, repository.path)
    assert summary["git_packed_bytes"] == bytes_of(repository.path + "/objects")
    borrower = tmp_path / "borrower"
    subprocess.run(["git", "clone", "-q", "--shared", "--bare", repository.path, borrower], check=True, env=ENVIRONMENT)
    summary = summary_of(store + "2", borrower)
    assert summary["git_packed_bytes"] == bytes_of(repository.path + "/objects") + bytes_of(borrower / "objects")
    text = run("load", store + "3", "--git", repository.path).stdout.decode()
    assert "git, unpacked" in text and "git, packed" in text


def peak_bytes(*arguments):
    """The greatest memory that a command took, as the kernel counts it: mapped files, too."""
    program = "import os, resource, subprocess, sys\n"
    program += "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
    program += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"
    done = subprocess.run([sys.executable, "-c", program, command(), *arguments], capture_output=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(os.environ.get("ICECORE_SANITIZED") == "1", reason="a sanitizer has memory of its own")
def test_memory_does_not_grow_with_the_store(store, tmp_path):
    """A history of 300 MB of values, of which git holds little."""
    repository = Repository(tmp_path / "repository")
    value = b"0123456789abcdef" * 12_500
    for number in range(1500):
        repository.commit({b"file": (FILE, b"%d" % number + value)})
    repository.finish()
    peak = peak_bytes("load", store, "--git", repository.path, "--threads", "2")
    size = os.path.getsize(store)
    assert size > 1500 * len(value)

    assert peak < size, f"{peak} bytes for a store of {size}"


def test_a_file_that_becomes_a_folder_and_back(store, tmp_path):
    repository = Repository(tmp_path / "repository")
    repository.commit({b"a": (FILE, b"file"), b"a-": (FILE, b"before the folder"), b"a0": (FILE, b"after it")})
    repository.commit({b"a/b/c": (FILE, b"deep")})
    repository.commit({b"a": (LINK, b"target")})
    repository.commit({b"a": (SUBMODULE, b"1" * 40)})
    repository.commit({b"a": (FILE, b"1" * 40)})  # the same bytes, of another kind: still a change
    repository.finish()
    run("load", store, "--git", repository.path)
    check_against_model(store, repository.commits)
    assert history(store, b"a") == [(5, b"1" * 40), (4, b"1" * 40), (3, b"target"), (2, None), (1, b"file")]


def test_empty_commits_and_empty_trees_are_tags_too(store, tmp_path):
    repository = Repository(tmp_path / "repository")
    for changes in ({}, {b"a": (FILE, b"")}, {}, {b"a": None}, {}):
        repository.commit(changes)
    repository.finish()
    run("load", store, "--git", repository.path)
    check_against_model(store, repository.commits)


def test_loading_does_not_depend_on_threads(store, tmp_path, rng):
    repository = random_repository(tmp_path / "repository", rng, commits=300)
    for threads in (1, 2, 7):
        run("load", f"{store}{threads}", "--git", repository.path, "--threads", str(threads))
    dumps = {run("dump", f"{store}{threads}").stdout for threads in (1, 2, 7)}
    assert len(dumps) == 1


def test_loading_from_git_and_from_its_dump_give_equal_snapshots(store, tmp_path, rng):
    repository = random_repository(tmp_path / "repository", rng, commits=25)
    run("load", store, "--git", repository.path)
    run("load", store + "2", stdin=run("dump", store).stdout)
    check_against_model(store + "2", repository.commits)
    assert check_with_git(store + "2", repository.path).returncode == 0


def test_a_work_tree_its_git_folder_and_a_worktree_can_be_named(store, tmp_path, rng):
    repository = random_repository(tmp_path / "repository", rng, commits=5, bare=False)
    git(repository.path, "worktree", "add", "--no-checkout", "--detach", str(tmp_path / "worktree"), "main")
    for number, path in enumerate((repository.path, repository.path + "/.git", tmp_path / "worktree")):
        run("load", f"{store}{number}", "--git", path)
        assert items(f"{store}{number}") == values(repository.tree)
    os.mkdir(repository.path + "/folder")
    run("load", store, "--git", repository.path + "/folder", code=10)


def test_a_shallow_clone_begins_where_its_history_ends(store, tmp_path, rng):
    repository = random_repository(tmp_path / "repository", rng, commits=10)
    subprocess.run(
        ["git", "clone", "-q", "--bare", "--depth", "3", "file://" + repository.path, tmp_path / "shallow"],
        check=True,
        env=ENVIRONMENT,
    )
    assert summary_of(store, tmp_path / "shallow")["commits"] == 3
    assert [t["name"] for t in lines("log", store, "-o", "json")] == [
        c["hash"] for c in reversed(repository.commits[-3:])
    ]
    assert check_with_git(store, str(tmp_path / "shallow")).returncode == 0


def test_refs_are_branches_tags_and_commits(store, tmp_path, rng):
    repository = random_repository(tmp_path / "repository", rng, commits=8)
    git(repository.path, "tag", "-a", "-m", "annotated", "v1", "main~4")
    for number, (ref, commits) in enumerate(
        {"main": 8, "v1": 4, "HEAD~2": 6, repository.commits[2]["hash"]: 3}.items()
    ):
        assert summary_of(f"{store}{number}", repository.path, "--ref", ref)["commits"] == commits


def test_a_later_load_adds_the_newer_commits(store, tmp_path, rng):
    repository = random_repository(tmp_path / "repository", rng, commits=30)
    for ref, added in (("main~20", 10), ("main~20", 0), ("main~7", 13), ("main", 7), ("main", 0)):
        summary = summary_of(store, repository.path, "--ref", ref)
        assert summary["commits"] == added and summary["complete"]
    run("load", store + "2", "--git", repository.path)
    assert run("dump", store).stdout == run("dump", store + "2").stdout


def test_another_history_is_refused_and_changes_nothing(store, tmp_path, rng):
    one = random_repository(tmp_path / "one", rng, commits=5)
    other = random_repository(tmp_path / "other", rng, commits=9)
    run("load", store, "--git", one.path)
    before = run("dump", store).stdout
    assert b"another history" in run("load", store, "--git", other.path, code=10).stderr
    assert b"the end of the chain" in run("load", store, "--git", one.path, "--ref", "main~2", code=10).stderr
    assert run("dump", store).stdout == before


def test_a_store_of_other_things_is_refused(store, tmp_path, rng):
    repository = random_repository(tmp_path / "repository", rng, commits=5)
    run("put", store, "not from git", "value")
    before = run("dump", store).stdout
    assert b"not from this repository" in run("load", store, "--git", repository.path, code=3).stderr
    assert run("dump", store).stdout == before
    run("tag", store, "mine")
    assert b"another history" in run("load", store, "--git", repository.path, code=10).stderr


def test_what_is_no_history_is_reported(store, tmp_path, rng):
    assert b"cannot be opened as a git repository" in run("load", store, "--git", tmp_path / "nothing", code=10).stderr
    os.mkdir(tmp_path / "folder")
    assert b"cannot be opened as a git repository" in run("load", store, "--git", tmp_path / "folder", code=10).stderr
    subprocess.run(["git", "init", "-q", tmp_path / "empty"], check=True, env=ENVIRONMENT)
    assert b"without commits" in run("load", store, "--git", tmp_path / "empty", code=10).stderr
    repository = random_repository(tmp_path / "repository", rng, commits=2)
    assert b"'nosuch'" in run("load", store, "--git", repository.path, "--ref", "nosuch", code=10).stderr
    blob = git(repository.path, "hash-object", "-w", "--stdin", stdin=b"blob").decode().strip()
    assert b"does not name a commit" in run("load", store, "--git", repository.path, "--ref", blob, code=10).stderr
    assert not os.path.exists(store)


def loose(repository, name):
    """The file of an object, after everything is unpacked into such files."""
    packs = os.path.join(repository.path, "objects", "pack")
    for pack in [name for name in os.listdir(packs) if name.endswith(".pack")]:
        with open(os.path.join(packs, pack), "rb") as file:
            content = file.read()
        for ending in (".pack", ".idx"):
            os.remove(os.path.join(packs, pack[:-5] + ending))
        git(repository.path, "unpack-objects", "-q", stdin=content)
    return os.path.join(repository.path, "objects", name[:2], name[2:])


def test_a_missing_object_stops_the_load_after_the_commit_before_it(store, tmp_path):
    repository = Repository(tmp_path / "repository")
    for number in range(20):
        repository.commit({b"file": (FILE, b"content %d" % number)})
    repository.finish()
    blob = git(repository.path, "rev-parse", "main~8:file").decode().strip()
    path = loose(repository, blob)
    os.rename(path, path + ".away")
    assert blob.encode() in run("load", store, "--git", repository.path, code=10).stderr
    check_against_model(store, repository.commits[:11])
    os.rename(path + ".away", path)
    assert summary_of(store, repository.path)["commits_before"] == 11
    check_against_model(store, repository.commits)


def test_the_check_against_git_finds_each_kind_of_difference(store, tmp_path):
    repository = Repository(tmp_path / "repository")
    repository.commit({b"a": (FILE, b"1"), b"b": (FILE, b"2")}, time=1000)
    repository.finish()
    name = repository.commits[0]["hash"]
    a, b, tagged = insert(1, b"a", b"1"), insert(1, b"b", b"2"), tag(1, name, 1000 * 10**9)
    for number, (code, contents) in enumerate(
        [
            (0, [a, b, tagged]),
            (1, [a, insert(1, b"b", b"3"), tagged]),
            (1, [a, tagged]),
            (1, [a, b, insert(1, b"c", b""), tagged]),
            (1, [a, b, tag(1, name, 1001 * 10**9)]),
            (2, [a, b, tag(1, "f" * 40)]),
        ]
    ):
        run("load", f"{store}{number}", stdin=dump_of(5, contents))
        assert check_with_git(f"{store}{number}", repository.path).returncode == code, contents
    assert check_with_git(store, repository.path).returncode == 2


def search(store, repository, *arguments):
    return subprocess.run(
        [sys.executable, "-B", SEARCHER, store, repository, "--icecore", command(), *arguments],
        capture_output=True,
        check=False,
        env=ENVIRONMENT,
    )


def test_queries_that_are_killed_find_in_each_commit_what_git_grep_finds(store, tmp_path, rng):
    repository = random_repository(tmp_path / "repository", rng, commits=10)
    summary_of(store, repository.path)
    done = search(store, repository.path, "--pattern", "[a-e]", "--commits", "0", "--kill-every", "0.05")
    assert done.returncode == 0, done.stdout + done.stderr
    assert b"10 queries started" in done.stdout and b"git grep finds the same files" in done.stdout
    assert lines("query", "list", store, "-o", "json") == []


def test_a_search_that_finds_other_files_than_git_grep_is_reported(store, tmp_path, rng):
    repository = random_repository(tmp_path / "repository", rng, commits=1)
    name = repository.commits[0]["hash"]
    filled(store, {b"only in the store": b"abc"}, tags=[tag(1, name)])
    done = search(store, repository.path, "--pattern", "[a-e]")
    assert done.returncode == 1 and b" was found by git grep alone" in done.stdout, done.stdout + done.stderr
