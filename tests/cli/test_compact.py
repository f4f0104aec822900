"""compact: a packed store answers every verb as it did before, takes less space, and is written as before."""

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import command, dump_of, filled, history, insert, items, lines, remove, run, tag

KINDS = ("btree", "persistent", "hash")  # the other two keep keys as one of these
LAYOUT = "n u8, rest bytes"


def stat(store):
    return lines("stat", store, "-o", "json")[0]


def contents_of_versions():
    """Four closed versions: removals, keys that come back, values that do not change, a large value, notes, bytes."""
    keys = [b"folder/%03d" % i for i in range(60)]
    made = [insert(1, key, b"\x01first of " + key) for key in keys] + [insert(1, b"", b"the empty key"), tag(1, "one", 5, "a note")]
    made += [insert(2, key, b"\x02second\nof " + key) for key in keys[::3]] + [remove(2, key) for key in keys[1::3]]
    made += [insert(2, b"large", b"\x05" * 10_000), insert(2, b"\xff\x00bytes", b"\x00\xfe"), tag(2, "two", 6)]
    made += [remove(3, key) for key in keys[::6]] + [insert(3, keys[1], b"\x03again"), insert(3, keys[2], b"\x01first of " + keys[2])]
    made += [tag(3, "three", 7, 'metrics\n{"loss": 0.5}')]
    made += [insert(4, keys[0], b"\x04fourth"), remove(4, b"large"), insert(4, b"new", b""), tag(4, "four", 8)]
    return made


def with_a_past(store, kind="btree", *options):
    run("load", store, "--index", kind, *options, stdin=dump_of(5, contents_of_versions()))
    return store


def feed_of(store, *arguments):
    """The changes alone: the token is another store's."""
    done = subprocess.run([command(), "feed", store, *arguments, "-o", "json"], capture_output=True, timeout=60, check=True)
    return done.stdout


def tree_of(folder):
    return sorted((os.path.relpath(os.path.join(root, n), folder), open(os.path.join(root, n), "rb").read())
                  for root, _, names in os.walk(folder) for n in names)  # fmt: skip


def answers(store, tmp_path):
    """What the verbs that read say of a store, by the command."""
    versions = range(lines("dump", store)[0]["clock"])
    asked = [("dump", store), ("log", store), ("log", store, "--graph", "--color", "never"), ("completion", "tags", store)]
    for at in versions:
        asked += [("scan", store, "-o", "json", "--at", str(at)), ("filter", store, "n > 1", "--layout", LAYOUT, "--at", str(at))]
        asked += [("get", store, key, "--at", str(at)) for key in ("folder/000", "large")]
        asked += [("diff", store, str(at), str(to), "-o", "json") for to in versions if to > at]
    asked += [("history", store, key, "-o", "json") for key in ("folder/000", "folder/001", "folder/002", "", "large", "none")]
    asked += [("history", store, "folder/006", "--reverse"), ("diff", store, "one", "two", "--patch", "--no-pager")]
    asked += [("scan", store, "--reverse", "--prefix", "folder/0"), ("scan", store, "--from", "folder/010", "--to", "folder/02", "--limit", "5")]
    asked += [("filter", store, "true", "--layout", LAYOUT, "--sum", "n", "--each-tag"), ("filter", store, "n > 1", "--layout", LAYOUT, "--changes", "one", "three")]
    found = {}
    for line in asked:
        done = run(*line, code=None)
        found[tuple(word for word in line if word != store)] = (done.returncode, done.stdout, done.stderr.replace(os.fsencode(store), b"STORE"))
    found["feed"] = feed_of(store, "--after", "0")
    found["feed of some"] = feed_of(store, "--after", "one", "--where", "length(value) > 2", "--max", "7")
    folder = tmp_path / "checked out"
    run("checkout", store, folder, "--at", "two", "--prefix", "folder/")
    found["checkout"] = tree_of(folder)
    shutil.rmtree(folder)
    now = stat(store)
    found["stat"] = {name: now[name] for name in ("clock", "tags", "index")}
    assert lines("verify", store, "-o", "json")[-1]["ok"]
    return found


def differences(these, those):
    assert these.keys() == those.keys()
    return {line: (these[line], those[line]) for line in these if these[line] != those[line]}


@pytest.mark.parametrize("kind", KINDS)
def test_every_verb_says_the_same_before_and_after(store, tmp_path, kind):
    with_a_past(store, kind)
    before = answers(store, tmp_path)
    records = stat(store)["records"]
    assert before["get", "folder/000", "--at", "2"][1] != before["get", "folder/000", "--at", "1"][1]
    (report,) = lines("compact", store, "-o", "json")
    assert report["packed"] and report["strata"] == 1 and report["up_to"] == 4
    assert report["records"] == records and report["keys"] == 64
    assert differences(before, answers(store, tmp_path)) == {}
    now = stat(store)
    assert (now["records"], now["packed_records"], now["packed_keys"], now["strata"]) == (records, records, 64, 1)
    assert now["format"].startswith("7.") and 0 < now["packed_bytes"] <= now["used_bytes"]


def test_a_compressed_store_says_the_same_in_less_space(store, tmp_path):
    with_a_past(store)
    before = answers(store, tmp_path)
    lines("compact", store, "-o", "json")
    plain = stat(store)
    assert not lines("compact", store, "--compress", "-o", "json")[0]["packed"]
    (report,) = lines("compact", store, "--compress", "--level", "9", "--whole", "-o", "json")
    assert report["packed"] and report["strata"] == 1
    assert differences(before, answers(store, tmp_path)) == {}
    now = stat(store)
    assert now["format"].startswith("8.") and now["packed_bytes"] < plain["packed_bytes"]
    assert now["packed_inflated_bytes"] == plain["packed_bytes"] == plain["packed_inflated_bytes"]
    assert (plain["block_cache_bytes_max"], now["block_cache_bytes_max"] > 0) == (0, True)
    told = run("stat", store).stdout
    assert b"compressed" in told and b"block cache" in told
    for arguments in (("--compress", "--level", "20"), ("--compress", "--level", "0"), ("--level", "3")):
        assert run("compact", store, *arguments, code=None).returncode != 0
    assert stat(store)["packed_bytes"] == now["packed_bytes"]


def test_a_packed_store_is_written_as_one_that_never_was(store, tmp_path):
    with_a_past(store)
    twin = str(tmp_path / "twin.ice")
    run("checkpoint", store, twin)
    for turn in range(3):
        run("compact", store, "--threads", "2", *["--whole"] * (turn == 2))
        for path in (store, twin):
            run("put", path, "folder/000", f"turn {turn}")
            run("put", path, f"new of turn {turn}", "\x07")
            run("del", path, "folder/002", code=0 if turn == 0 else 1)
            run("put", path, "folder/001", "x", "--if-new", code=1)
            run("put", path, "folder/004", "x", "--if-new", code=0 if turn == 0 else 1)
            run("put", path, "--many", "-", "--lines-json", stdin=b'{"key": "m", "value": "%d"}\n{"key": "folder/003", "value": null}\n' % turn)
            run("tag", path, f"turn {turn}", "--time", f"@{turn + 100}", "-o", "json")
        assert run("dump", store).stdout == run("dump", twin).stdout
    assert differences(answers(twin, tmp_path), answers(store, tmp_path)) == {}
    run("compact", store)
    assert differences(answers(twin, tmp_path), answers(store, tmp_path)) == {}
    run("reindex", store, "--index", "persistent")
    assert stat(store)["index"] == "persistent" and run("dump", store).stdout == run("dump", twin).stdout


def test_what_is_packed_already_is_packed_once_more_only_when_asked(store):
    filled(store, {b"%04d" % i: b"value" for i in range(1_000)})
    assert lines("compact", store, "--json")[0]["records"] == 1_000
    content = open(store, "rb").read()
    (report,) = lines("compact", store, "--json")
    assert not report["packed"] and report["records"] == report["bytes_written"] == 0 and report["strata"] == 1
    assert b"nothing to pack; 1 stratum up to version 1" in run("compact", store).stdout
    assert open(store, "rb").read()[65_536:] == content[65_536:], "only pages that say who opened it have changed"
    run("put", store, "0000", "second")
    (report,) = lines("compact", store, "--json")
    assert (report["records"], report["strata"]) == (1, 2), "the large stratum stays as it is"
    assert stat(store)["packed_keys"] == 1_001, "a key counts in each stratum"
    assert (stat(store)["keys_at_least"], stat(store)["keys"]) == (1_000, 1_001)
    (report,) = lines("compact", store, "--whole", "--json")
    assert (report["records"], report["keys"], report["strata"]) == (1_001, 1_000, 1)
    assert len(history(store, b"0000")) == 2 and len(items(store)) == 1_000


def test_stat_says_what_is_live_and_garbage_and_what_was_written(store):
    script = b"put key first\nput key other\nput more x\nstat -o json\nstat\n"
    told = run("shell", store, "--write", stdin=script).stdout.decode().splitlines()
    now = json.loads(next(line for line in told if line.startswith("{")))
    assert now["given_bytes"] == 2 * len("keyfirst") + len("morex")
    assert now["write_amplification"] == pytest.approx(now["written_bytes"] / now["given_bytes"])
    assert now["written_bytes"] > now["given_bytes"]
    assert (now["garbage_bytes"], now["waiting_bytes"]) == (len("first"), 0)
    assert now["live_bytes"] == now["used_bytes"] - len("first")
    text = "\n".join(told)
    assert re.search(r"^live, garbage +[\d,]+ B.*, 5 B$", text, re.MULTILINE)
    assert re.search(r"^oldest pin +none in this process$", text, re.MULTILINE)
    assert re.search(r"^written +[\d,]+ B for 21 B given since it was opened, [\d.]+ times$", text, re.MULTILINE)
    # another process counts the garbage again, and has written nothing
    later = stat(store)
    assert (later["garbage_bytes"], later["given_bytes"], later["write_amplification"]) == (len("first"), 0, 0)
    assert "oldest_pin" not in later and "oldest_held" not in later
    assert re.search(r"^written +nothing since it was opened$", run("stat", store).stdout.decode(), re.MULTILINE)
    run("tag", store, "one")
    run("query", "start", store, "held", "true", "--at", "one")
    assert stat(store)["oldest_held"] == lines("log", store, "-o", "json")[0]["version"]
    assert "; queries, feeds and holds keep version" in run("stat", store).stdout.decode()
    run("compact", store)
    assert stat(store)["garbage_bytes"] == 0


def test_the_line_and_stat_say_what_is_packed(store):
    filled(store, {b"%06d" % i: b"value of %d" % i for i in range(20_000)})
    before = stat(store)
    assert (before["packed_keys"], before["packed_records"], before["packed_bytes"], before["strata"]) == (0, 0, 0, 0)
    assert re.search(r"^packed +none$", run("stat", store).stdout.decode(), re.MULTILINE)
    text = run("compact", store).stdout.decode()
    assert re.fullmatch(
        r".*store\.ice: 20,000 records of 20,000 keys packed, 1 stratum up to version 1; "
        r"[\d.]+ \w+ before, [\d.]+ \w+ after, in \d+\.\d\d s\n",
        text,
    ), text
    assert re.search(r"^packed +20,000 of the records, .* in 1 stratum$", run("stat", store).stdout.decode(), re.MULTILINE)
    (report,) = lines("compact", store, "--whole", "--json")
    assert not report["packed"]
    after = stat(store)
    assert after["packed_bytes"] < before["used_bytes"] / 2
    assert os.stat(store).st_blocks * 512 == report["bytes_after"]


def test_of_several_writes_of_a_key_in_one_version_the_last_one_stays(store):
    for value in ("1", "2", "3"):
        run("put", store, "key", value)
    run("tag", store)
    run("put", store, "key", "in the open version")
    run("put", store, "passing", "by")
    run("del", store, "passing")
    assert len(history(store, b"key")) == 4
    (report,) = lines("compact", store, "--json")
    assert report["up_to"] == 2, "the open version was closed"
    assert history(store, b"key") == [(2, b"in the open version"), (1, b"3")]
    assert items(store) == [(b"key", b"in the open version")]
    assert stat(store)["clock"] == 3
    run("history", store, "passing", code=1)


def test_ranges_and_rates_are_told_in_mib(store):
    filled(store, {b"%04d" % i: b"%d" % i + b"v" * 3_000 for i in range(1_000)})
    (first,) = lines("compact", store, "--at-once", "1", "--json")
    run("put", store, "0500", "second")
    (second,) = lines("compact", store, "--whole", "--at-once", "1", "--limit-rate", "1000", "--json")
    assert second["strata"] == 1 and second["records"] == 1_001 and second["keys"] == 1_000
    assert first["bytes_written"] < second["bytes_written"] < 1.1 * first["bytes_written"]
    assert len(history(store, b"0500")) == 2 and len(items(store)) == 1_000
    for option in "--at-once", "--limit-rate":
        refused = run("compact", store, option, str(2**50), code=2)
        assert option.encode() in refused.stderr and b"more than any device has" in refused.stderr
        assert option.encode() in run("compact", store, option, "few", code=2).stderr


def test_an_empty_store_has_nothing_to_pack(store):
    run("put", store, "key", "value")
    run("load", store + "2", stdin=dump_of(1, []))
    (report,) = lines("compact", store + "2", "--json")
    assert not report["packed"] and (report["strata"], report["up_to"]) == (0, 0)
    assert b"nothing to pack; 0 strata up to version 0" in run("compact", store + "2").stdout
    assert items(store + "2") == [] and lines("verify", store + "2", "-o", "json")[-1]["ok"]


def test_queries_and_feeds_that_are_kept_go_on(store):
    with_a_past(store)
    run("query", "start", store, "sums", "n > 1", "--layout", LAYOUT, "--select", "n", "--sum", "n", "--run")
    run("query", "start", store, "waiting", "true", "--at", "two", "--select", "key")
    shown, rows = run("query", "results", store, "sums", "-o", "csv").stdout, run("query", "list", store, "-o", "json").stdout
    feed_of(store, "mirror", "--after", "0", "--max", "70")
    rest = feed_of(store, "--after", "0").splitlines()[70:]
    run("compact", store)
    assert run("query", "results", store, "sums", "-o", "csv").stdout == shown
    assert [json.loads(q)["name"] for q in run("query", "list", store, "-o", "json").stdout.splitlines()] == [
        json.loads(q)["name"] for q in rows.splitlines()
    ]
    run("query", "run", store, "waiting")
    keys = [row["key"] for row in lines("query", "results", store, "waiting", "-o", "json")]
    assert len(keys) == len(items(store, "--at", "two")) and "folder/000" in keys
    told = feed_of(store, "mirror").splitlines()  # a version that was told in part is told again
    assert told[-len(rest) :] == rest
    assert {json.loads(change)["version"] for change in told[: -len(rest)]} <= {json.loads(rest[0])["version"]}
    assert lines("verify", store, "-o", "json")[-1]["queries"] == 2


def test_a_dump_and_a_checkpoint_of_a_packed_store_hold_all_of_it(store, tmp_path):
    with_a_past(store)
    dump = run("dump", store).stdout
    run("compact", store)
    run("put", store, "young", "value")
    run("tag", store, "five", "--time", "@9")
    run("put", store, "young", "open")
    dump = run("dump", store).stdout
    loaded, copy = str(tmp_path / "loaded.ice"), str(tmp_path / "copy.ice")
    run("load", loaded, stdin=dump)
    assert run("dump", loaded).stdout == dump and stat(loaded)["strata"] == 0
    run("checkpoint", store, copy)
    assert stat(copy)["packed_records"] == stat(store)["packed_records"] > 0
    run("compact", loaded)
    run("put", copy, "more", "value")  # a store of its own
    run("compact", copy, "--whole")
    assert run("dump", store).stdout == dump
    assert items(copy, "--at", "five") == items(loaded, "--at", "five") == items(store, "--at", "five")


def test_a_store_of_several_files_is_packed_and_a_file_that_moved_is_told(tmp_path):
    store, secondary, moved = (str(tmp_path / name) for name in ("store.ice", "second.ice", "moved.ice"))
    with_a_past(store, "btree", "--placement", f"{secondary}@0")
    dump = run("dump", store).stdout
    os.rename(secondary, moved)
    assert b"second.ice" in run("compact", store, code=5).stderr
    (report,) = lines("compact", store, "--placement", moved, "--json")
    assert report["packed"] and report["bytes_after"] == sum(os.stat(f).st_blocks * 512 for f in (store, moved))
    assert run("dump", store).stdout == dump
    assert lines("verify", store, "-o", "json")[-1]["ok"]


def test_what_is_refused_changes_nothing(store, tmp_path):
    assert b"`icecore put` makes one" in run("compact", store, code=3).stderr
    assert not os.path.exists(store)
    other = tmp_path / "other"
    other.write_bytes(b"no store at all" * 10_000)
    run("compact", other, code=3)
    assert other.read_bytes() == b"no store at all" * 10_000
    run("compact", code=2)
    with_a_past(store)
    content = open(store, "rb").read()
    for wrong in (["--threads", "-1"], ["--threads", "many"], ["--durability", "all"], ["--format", "csv"], ["more"]):
        run("compact", store, *wrong, code=2)
    place = content.index(b"first of folder/030")
    with open(store, "r+b") as file:
        file.seek(place)
        file.write(b"F")
    run("compact", store, code=5)
    assert stat_of_damaged(store)["strata"] == 0
    assert len(history(store, b"folder/000", "--accept-damage")) == 4


def stat_of_damaged(store):
    return lines("stat", store, "--accept-damage", "-o", "json")[0]


def test_a_store_that_another_process_has_open_is_not_packed(store):
    filled(store, {b"%06d" % i: b"v" * 100 for i in range(5_000)})
    with subprocess.Popen([command(), "scan", store], stdout=subprocess.PIPE) as reader:
        reader.stdout.read(1)  # the rest does not fit into the pipe
        message = run("compact", store, code=4).stderr.decode()
        assert "another process has it open for reading; wait until it ends" in message
        reader.stdout.read()
        reader.wait()
    assert stat(store)["strata"] == 0
    assert lines("compact", store, "--json")[0]["packed"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write any file")
def test_a_file_that_may_only_be_read_is_not_packed(store):
    filled(store, {b"a": b"1"})
    os.chmod(store, 0o400)
    run("compact", store, code=9)
    assert stat(store)["strata"] == 0


def test_repair_rescues_what_is_intact_of_a_packed_store(store, tmp_path):
    filled(store, {b"%06d" % i: b"value of %06d" % i for i in range(2_000)}, tags=[tag(1, "one")])
    run("compact", store)
    run("repair", store, tmp_path / "whole.ice")
    assert items(tmp_path / "whole.ice") == items(store)
    content = open(store, "rb").read()
    with open(store, "r+b") as file:
        file.seek(content.index(b"value of 001000"))
        file.write(b"V")
    told = lines("repair", store, tmp_path / "rest.ice", "-o", "json", code=6)
    lost = [line["lost"] for line in told if "lost" in line]
    assert len(lost) == 1 and lost[0]["structure"] == "packed" and "what the keys from '00" in lost[0]["what"]
    rest = dict(items(tmp_path / "rest.ice"))
    assert 1_500 < len(rest) < 2_000 and b"001000" not in rest and rest[b"000000"] == b"value of 000000"
    assert b"one" in run("log", tmp_path / "rest.ice").stdout


def test_damage_of_what_is_packed_is_named_and_the_rest_can_be_read(store):
    filled(store, {b"%06d" % i: b"value of %06d" % i for i in range(2_000)}, tags=[tag(1, "one")])
    run("compact", store)
    content = open(store, "rb").read()
    with open(store, "r+b") as file:
        file.seek(content.index(b"value of 001000"))
        file.write(b"V")
    (damage, summary) = lines("verify", store, "-o", "json", code=6)
    assert damage["damage"]["structure"] == "packed" and not summary["ok"]
    for verb in (("get", "001000"), ("scan",), ("dump",)):
        message = run(verb[0], store, *verb[1:], code=5).stderr.decode()
        assert f"damaged at byte {damage['damage']['offset']} (packed records)" in message
    assert run("get", store, "000001", "--at", "one").stdout == b"value of 000001"
    assert run("get", store, "001999").stdout == b"value of 001999"
    run("put", store, "young", "value")
    run("compact", store, "--whole", code=5)
    assert run("get", store, "young").stdout == b"value"


def test_a_dry_run_says_when_a_store_would_grow(tmp_path):
    store = with_a_past(str(tmp_path / "store.ice"))
    for version in range(40):
        run("put", store, "large", "-", stdin=b"some text that is nearly the same each time, " * 3000 + str(version).encode())
        run("tag", store)
    run("compact", store, "--compress")
    told = run("compact", store, "--whole", "--dry-run").stdout.decode()
    assert re.search(r" then; it would take about [\d.]+ [MG]B more \(without --compress, ", told), told
    (report,) = lines("compact", store, "--whole", "--dry-run", "--json")
    assert report["bytes_after"] > 2 * report["bytes_before"]
    assert run("compact", store, "--whole").returncode == 0
    assert os.stat(store).st_blocks * 512 == pytest.approx(report["bytes_after"], rel=0.3)
