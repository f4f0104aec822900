"""load --git stopped at any moment goes on to the same end. ICECORE_KILLS sets how often it is killed (default 12)."""

import json
import os
import random
import signal
import subprocess
import time

import pytest
from conftest import command, lines, run
from git_repositories import FILE, Repository, random_repository

KILLS = int(os.environ.get("ICECORE_KILLS", "12"))


def shown_by_tags(store):
    """Each tag with the records that it is the first to show: what must not depend on where a load was stopped."""
    out, records = [], []
    for line in map(json.loads, run("dump", store).stdout.splitlines()[1:-1]):
        version = line.pop("version")
        if "tag" in line:
            out.append((line, records))
            records = []
        else:
            assert "key" in line, (version, line)
            records.append(line)
    assert records == []
    return out


def loaded(store):
    return [t["name"] for t in lines("log", store, "--reverse", "-o", "json")]


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return random_repository(
        tmp_path_factory.mktemp("resume") / "repository", random.Random(7), commits=3000, size=3000
    )


@pytest.fixture(scope="module")
def uninterrupted(repository, tmp_path_factory):
    """A load that nothing disturbed: its end, and how long it took."""
    store = tmp_path_factory.mktemp("uninterrupted") / "store.ice"
    start = time.monotonic()
    run("load", store, "--git", repository.path)
    return {"end": shown_by_tags(store), "seconds": time.monotonic() - start, "store": store}


@pytest.mark.parametrize("durability", ["none", "tag"])
def test_a_load_killed_at_random_moments_comes_to_the_same_end(store, repository, uninterrupted, durability):
    chain = [c["hash"] for c in repository.commits]
    before, kills, seed = 0, 0, random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    print(f"seed {seed}")
    options = ("--durability", durability, "--emulate-durability")
    while kills < KILLS:
        with subprocess.Popen(
            [command(), "load", store, "--git", repository.path, *options], stdout=subprocess.DEVNULL
        ) as load:
            # The first kills come while the store is being made, the last when most of it is there.
            time.sleep(rng.uniform(0, 2.5 * uninterrupted["seconds"] / KILLS + 0.05))
            load.send_signal(signal.SIGKILL)
        if load.returncode == 0:  # it came to its end: once more from the beginning
            assert shown_by_tags(store) == uninterrupted["end"]
            os.remove(store)
            before = 0
            continue
        kills += 1
        if run("stat", store, code=None).returncode == 3:
            assert before == 0  # killed before there was a store
            continue
        # What was there is there, and what is there is the chain's beginning.
        names = loaded(store)
        assert names == chain[: len(names)] and len(names) >= before
        before = len(names)
        run("verify", store)
    run("load", store, "--git", repository.path, *options)
    assert shown_by_tags(store) == uninterrupted["end"]
    run("verify", store)


@pytest.mark.parametrize("content", [b"new content", None])
def test_a_commit_that_was_applied_but_not_tagged_is_not_applied_again(store, tmp_path, content):
    repository = Repository(tmp_path / "repository")
    repository.commit({b"file": (FILE, b"content"), b"other": (FILE, b"other")})
    repository.commit({b"file": None if content is None else (FILE, content)})
    repository.commit({b"other": None})
    repository.finish()
    for commits, name in ((1, "main~2"), (2, "main~1")):
        run("load", store + str(commits), "--git", repository.path, "--ref", name)
    # What a load leaves that is killed between the batch of the second commit and its tag.
    if content is None:
        run("del", store + "1", "file")
    else:
        run("put", store + "1", "file", content)
    run("load", store + "1", "--git", repository.path)
    run("load", store + "2", "--git", repository.path)
    assert run("dump", store + "1").stdout == run("dump", store + "2").stdout
    # The same in the very first commit, with the store still without a tag.
    single = Repository(tmp_path / "single")
    single.commit({b"file": (FILE, b"content")})
    single.finish()
    run("put", store, "file", "content")
    run("load", store, "--git", single.path)
    assert [len(records) for _, records in shown_by_tags(store)] == [1]


def test_a_load_asked_to_stop_closes_the_store_and_goes_on_later(store, repository, uninterrupted):
    stopped = 0
    for attempt in range(20):
        with subprocess.Popen(
            [command(), "load", store, "--git", repository.path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as load:
            time.sleep(0.05 + uninterrupted["seconds"] * attempt / 40)
            load.send_signal(signal.SIGINT if attempt % 2 else signal.SIGTERM)
            message = load.stderr.read()
        if load.returncode == 130:
            stopped += 1
            assert b"start the same command again to continue" in message
            assert not lines("stat", store, "-o", "json")[0]["recovered_from_crash"]
        if load.returncode == 0:
            break
    assert stopped > 0
    run("load", store, "--git", repository.path)
    assert run("dump", store).stdout == run("dump", uninterrupted["store"]).stdout
