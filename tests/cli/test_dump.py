"""dump and load: exact round trips, and dumps that are wrong in every way."""

import json
import os
import subprocess
import zlib

import pytest
from conftest import PROJECT, command, dump_of, history, insert, items, lines, remove, run, tag, to_bytes, wait_for


def contents_of(dump):
    """A dump's lines between first and last, parts joined: comparable objects with bytes."""
    out = []
    for line in map(json.loads, dump.splitlines()[1:-1]):
        if "part" in line:
            out[-1]["value"] += to_bytes(line["part"])
            continue
        for member in ("key", "value", "tag", "note"):
            if member in line:
                line[member] = to_bytes(line[member])
        if "size" in line:
            line["value"] = b""
            del line["size"]
        out.append(line)
    return out


def random_contents(rng):
    """Lines of a dump in the order of one, of a store with every peculiarity; and its clock."""
    keys = [rng.randbytes(rng.randrange(6)) for _ in range(8)] + [b"", b"K" * 65_535, "ü".encode()]
    present = set()
    contents = []
    version = 1
    for _ in range(12):
        # Gaps are what crashes leave.
        version += rng.choice([1, 1, 1, 2, 1000, 20_000])
        for key in sorted({rng.choice(keys) for _ in range(rng.randrange(6))}):
            for _ in range(rng.choice([1, 1, 3])):
                if key in present and rng.random() < 0.3:
                    contents.append(remove(version, key))
                    present.discard(key)
                else:
                    contents.append(insert(version, key, rng.randbytes(rng.choice([0, 1, 10, 5000]))))
                    present.add(key)
        if rng.random() < 0.5:
            contents.append(
                tag(version, rng.choice(["", f"name {version}"]), rng.randrange(-(2**63), 2**63), "a\tnote")
            )
    return contents, version + rng.choice([1, 2, 5000])


@pytest.mark.parametrize("seed", range(8))
def test_a_loaded_dump_dumps_the_same(store, rng, seed):
    contents, clock = random_contents(rng)
    original = dump_of(clock, contents)
    run("load", store, stdin=original)
    dump = run("dump", store).stdout
    assert contents_of(dump) == contents_of(original)
    assert json.loads(dump.splitlines()[0])["clock"] == clock == lines("stat", store, "-o", "json")[0]["clock"]
    # From here on even the bytes are the same.
    run("load", store + "2", stdin=dump)
    assert run("dump", store + "2").stdout == dump
    run("verify", store + "2")


@pytest.mark.parametrize("durability", ["tag", "operation"])
def test_versions_skipped_by_the_hundred_thousand_are_loaded_under_any_durability(store, durability):
    """Each is closed in memory: waiting for the device at each would take minutes, and run into the time limit."""
    gap, clock = 200_000, 1_400_000
    contents = [insert(1, b"k", b"a"), tag(gap, "far", 7), insert(gap + 1, b"k", b"b"), remove(clock - 1, b"k")]
    run("load", store, "--durability", durability, "--emulate-durability", stdin=dump_of(clock, contents))
    assert contents_of(run("dump", store).stdout) == contents_of(dump_of(clock, contents))
    stat = lines("stat", store, "-o", "json")[0]
    assert (stat["clock"], stat["durability"]["mode"]) == (clock, durability)
    assert not stat["recovered_from_crash"]


def test_any_number_of_versions_is_skipped_at_once(store):
    far = 2**48 - 2**20
    contents = [insert(1, b"k", b"a"), tag(far // 2, "far", 7), remove(far, b"k")]
    run("load", store, stdin=dump_of(far + 1, contents))
    assert contents_of(run("dump", store).stdout) == contents_of(dump_of(far + 1, contents))


def with_lost_versions(dump, ranges):
    """The dump, with ranges of lost versions in its first line."""
    first, rest = dump.split(b"\n", 1)
    header = json.loads(first)
    header["lost_versions"] = ranges
    body = json.dumps(header).encode() + b"\n" + rest[: rest.rindex(b'{"end"')]
    last = json.loads(rest.splitlines()[-1])
    last["crc32"] = f"{zlib.crc32(body):08x}"
    return body + json.dumps(last).encode() + b"\n"


def test_versions_that_a_power_cut_took_stay_lost_in_a_loaded_dump(store, tmp_path):
    contents = [insert(1, b"k", b"a"), tag(1, "one"), insert(9, b"k", b"b")]
    run("load", store, stdin=with_lost_versions(dump_of(10, contents), [[2, 5], [6, 9]]))
    dump = run("dump", store).stdout
    assert json.loads(dump.splitlines()[0])["lost_versions"] == [[2, 5], [6, 9]]
    assert contents_of(dump) == contents_of(dump_of(10, contents))
    again = str(tmp_path / "again.ice")
    run("load", again, stdin=dump)
    for loaded in (store, again):
        reported = lines("stat", loaded, "-o", "json")[1:]
        assert reported == [{"lost_versions": {"first": 2, "last": 4}}, {"lost_versions": {"first": 6, "last": 8}}]
        assert b"2 to 4, in a power cut" in run("stat", loaded).stdout
        for version in ("2", "4", "6", "8"):
            assert f"version {version} is lost".encode() in run("get", loaded, "k", "--at", version, code=11).stderr
            run("scan", loaded, "--at", version, code=11)
            run("diff", loaded, "1", version, code=11)
        assert run("get", loaded, "k", "--at", "5").stdout == b"a"
        assert run("get", loaded, "k", "--at", "one").stdout == b"a"
        assert run("get", loaded, "k", "--at", "9").stdout == b"b"


@pytest.mark.parametrize("wrong", [5, [5], [[1]], [[1, 2, 3]], [[0, 2]], [[2, 2]], [[3, 2]], [[1, 7]], [["a", 2]], [[-1, 2]]])
def test_ranges_of_lost_versions_that_are_none_are_reported(store, wrong):
    dump = with_lost_versions(dump_of(6, [insert(1, b"k", b"a")]), wrong)
    assert b'line 1: "lost_versions" must be ranges' in run("load", store, stdin=dump, code=10).stderr


def test_a_version_that_no_store_reaches_is_reported(store):
    error = run("load", store, stdin=dump_of(2**48 - 1, []), code=10).stderr
    assert b"version 281474976710655 cannot be opened" in error
    error = run("load", store, stdin=dump_of(2**48 - 1, [insert(2**48 - 2, b"k", b"a")]), code=10).stderr
    assert b"line 2: version 281474976710654 cannot be opened" in error
    assert not os.path.exists(store)


def test_records_of_one_key_in_one_version_keep_their_order(store):
    contents = [insert(1, b"k", b"a"), insert(1, b"k", b"b"), remove(1, b"k"), insert(1, b"k", b"a")]
    run("load", store, stdin=dump_of(1, contents))
    assert history(store, b"k") == [(1, b"a"), (1, None), (1, b"b"), (1, b"a")]
    assert contents_of(run("dump", store).stdout) == contents_of(dump_of(1, contents))


def test_keys_that_no_snapshot_shows_are_dumped(store):
    run("put", store, "removed", "1")
    run("tag", store)
    run("del", store, "removed")
    run("put", store, "came and went", "1")
    run("del", store, "came and went")
    found = contents_of(run("dump", store).stdout)
    assert (found[1].pop("version"), found.pop(1)["tag"]) == (1, b"")
    assert [(c["version"], c["key"], c.get("value")) for c in found] == [
        (1, b"removed", b"1"),
        (2, b"came and went", b"1"),
        (2, b"came and went", None),
        (2, b"removed", None),
    ]


@pytest.mark.parametrize("size", [2**20 - 1, 2**20, 2**20 + 1, 5_000_000])
@pytest.mark.parametrize("unit", [b"\xff\0", "ü€".encode(), b"\t"])
def test_large_values_are_dumped_in_parts(store, size, unit):
    value = (unit * (size // len(unit) + 1))[:size]
    run("put", store, "key", "-", stdin=value)
    dump = run("dump", store).stdout
    assert max(map(len, dump.splitlines())) < 3 * 2**20
    assert len(dump.splitlines()) == (3 if size <= 2**20 else 3 + -(-size // 2**20))
    assert contents_of(dump)[0]["value"] == value
    run("load", store + "2", stdin=dump)
    assert run("get", store + "2", "key").stdout == value


@pytest.mark.parametrize("bound", [1, 2, 7, 40, 10**9])
def test_how_much_is_sorted_at_once_does_not_show(store, rng, bound):
    contents, clock = random_contents(rng)
    run("load", store, stdin=dump_of(clock, contents))
    assert run("dump", store, "--records-in-memory", str(bound)).stdout == run("dump", store).stdout


def test_text_in_a_dump_can_be_read_by_people(store):
    run("put", store, "layer/ü", "one\ntwo")
    run("tag", store, "epoch-1", "--note", "done", "--time", "1970-01-01T00:00:01Z")
    first, record, tagged, last = map(json.loads, run("dump", store).stdout.splitlines())
    assert first["icecore_dump"] == 1 and (first["clock"], first["records"], first["tags"]) == (2, 1, 1)
    assert record == {"version": 1, "key": "layer/ü", "value": "one\ntwo"}
    assert tagged == {"version": 1, "tag": "epoch-1", "time_ns": 1_000_000_000, "note": "done"}
    assert (last["end"], last["records"], last["tags"]) == (True, 1, 1)


def test_the_checksum_is_the_crc32_of_all_lines_before_it(store):
    run("put", store, "key", "value")
    dump = run("dump", store).stdout
    body = dump[: dump.rindex(b"\n", 0, -1) + 1]
    assert json.loads(dump[len(body) :])["crc32"] == f"{zlib.crc32(body):08x}"


def test_a_dump_goes_to_a_file_or_a_pipe(store, tmp_path):
    run("put", store, "key", "value")
    run("dump", store, "--output", tmp_path / "dump")
    assert (tmp_path / "dump").read_bytes() == run("dump", store).stdout
    run("load", store + "2", tmp_path / "dump")
    with subprocess.Popen([command(), "dump", store], stdout=subprocess.PIPE) as dump:
        subprocess.run([command(), "load", store + "3", "-"], stdin=dump.stdout, check=True, stdout=subprocess.DEVNULL)
    assert items(store + "2") == items(store + "3") == [(b"key", b"value")]


def test_an_empty_store_round_trips(store):
    run("load", store, stdin=dump_of(1, []))
    assert contents_of(run("dump", store).stdout) == []
    # It counts as no store: it may be loaded again.
    run("load", store, stdin=dump_of(2, [insert(1, b"k", b"v")]))
    assert items(store) == [(b"k", b"v")]


def test_a_store_that_is_not_empty_is_never_loaded_over(store):
    run("put", store, "key", "value")
    assert b"not empty" in run("load", store, stdin=dump_of(2, [insert(1, b"k", b"v")]), code=3).stderr
    assert items(store) == [(b"key", b"value")]
    run("del", store, "key")
    run("load", store, stdin=dump_of(1, []), code=3)


def places(count):
    """Each needs a process: every seventh, which meets all parts of a line, unless all are asked for."""
    return range(0, count, 1 if os.environ.get("ICECORE_EVERY_PLACE") == "1" else 7)


def test_a_dump_that_was_cut_off_anywhere_is_refused(store):
    dump = dump_of(3, [insert(1, b"a", b"1"), tag(1, "t"), remove(2, b"a")])
    for size in places(len(dump) - 1):
        done = run("load", store, stdin=dump[:size], code=10)
        assert not os.path.exists(store) and not os.path.exists(store + ".loading"), done
    run("load", store, stdin=dump[:-1])


def test_a_dump_with_any_byte_changed_is_refused(store):
    dump = dump_of(2, [insert(1, b"a", b"1"), tag(1, "t")])
    for place in places(len(dump) - 1):
        changed = bytearray(dump)
        changed[place] ^= 1
        done = run("load", store, stdin=bytes(changed), code=None)
        assert done.returncode == 10, (place, bytes(changed))
        assert not os.path.exists(store)


GOOD = insert(1, b"a", b"1")
WRONG = [
    ("line 2: not valid JSON", b'{"version":1,\n'),
    ("line 2: not a JSON object", b"[1]\n"),
    ("line 2: the line is neither a record", {"version": 1}),
    ('line 2: the member "colour"', {**GOOD, "colour": "red"}),
    ('line 2: the member "version" is missing', {"key": "a", "value": "1"}),
    ('line 2: "version" is not a whole number from 0 to 5', {**GOOD, "version": 6}),
    ('line 2: "version" is not a whole number', {**GOOD, "version": -1}),
    ('line 2: "version" is not a whole number', {**GOOD, "version": 1.5}),
    ("line 2: a number is too large", b'{"version":1e999}\n'),
    ('line 2: "key" is neither', {**GOOD, "key": 5}),
    ("line 2: base64: its length", {**GOOD, "key": {"base64": "abc"}}),
    ("line 2: base64: '!'", {**GOOD, "key": {"base64": "ab!="}}),
    ("line 2: base64: the unused bits", {**GOOD, "key": {"base64": "ab=="}}),
    ("line 2: a key of 65536 bytes", {**GOOD, "key": "k" * 65_536}),
    ("line 2: a record must have exactly one of", {**GOOD, "removed": True}),
    ('line 2: "removed" must be true', {"version": 1, "key": "a", "removed": False}),
    ("line 2: a record removes a key that does not exist", remove(1, b"a")),
    ('line 2: "size" is not a whole number from 0 to 4294967295', {"version": 1, "key": "a", "size": 2**32}),
    ("line 3: a part has 3 bytes, but must have 1 to 2 ", [{"version": 1, "key": "a", "size": 2}, {"part": "123"}]),
    ("line 3: a part has 0 bytes, but must have 1 to 2 ", [{"version": 1, "key": "a", "size": 2}, {"part": ""}]),
    ('line 3: the member "version" is not allowed', [{"version": 1, "key": "a", "size": 2}, GOOD]),
    ('line 2: "time_ns"', {"version": 1, "tag": "t", "time_ns": 2**63, "note": ""}),
    ('line 2: the member "note" is missing', {"version": 1, "tag": "t", "time_ns": 0}),
    ("line 2: version 5 has a tag, but is not below the clock 5", tag(5, "t")),
    ("line 3: a tag named 't'", [tag(1, "t"), tag(2, "t")]),
    ("line 3: version 1 is closed already", [insert(2, b"a", b"1"), GOOD]),
    ("line 3: version 1 is closed already", [tag(1, "t"), GOOD]),
]


@pytest.mark.parametrize("wanted, wrong", WRONG)
def test_what_is_wrong_is_reported_with_its_line(store, wanted, wrong):
    if isinstance(wrong, bytes):
        text = dump_of(5, [GOOD]).splitlines(keepends=True)
        dump = text[0] + wrong + b"".join(text[1:])
    else:
        dump = dump_of(5, wrong if isinstance(wrong, list) else [wrong])
    assert "standard input, " + wanted in run("load", store, stdin=dump, code=10).stderr.decode()
    assert not os.path.exists(store) and not os.path.exists(store + ".loading")


@pytest.mark.parametrize(
    "first, wanted",
    [
        (b"", "nothing to read"),
        (b"\n", "not an icecore dump"),
        (b"SQLite format 3\0", "not an icecore dump"),
        (b"{}\n", "not an icecore dump"),
        (b'{"icecore_dump":2,"clock":1,"records":0,"tags":0}\n', "format 2"),
        (b'{"icecore_dump":1,"clock":0,"records":0,"tags":0}\n', "clock"),
        (b'{"icecore_dump":1}\n', "missing"),
        (b"x" * 20_000_000, "longer than any line"),
    ],
)
def test_what_is_no_dump_is_reported(store, first, wanted):
    assert wanted in run("load", store, stdin=first, code=10).stderr.decode()


def test_missing_and_added_lines_are_reported(store):
    text = dump_of(2, [insert(1, b"a", b"1"), insert(1, b"b", b"2")]).splitlines(keepends=True)
    assert b"lines are missing" in run("load", store, stdin=b"".join(text[:1] + text[2:]), code=10).stderr
    assert b"lines are missing" in run("load", store, stdin=b"".join(text[:2] + text[1:]), code=10).stderr
    assert b"there is more after" in run("load", store, stdin=b"".join(text) + b"{}\n", code=10).stderr
    assert b"checksum" in run("load", store, stdin=b"".join([text[0], text[2], text[1], text[3]]), code=10).stderr


def test_what_a_killed_load_left_is_replaced(store):
    with subprocess.Popen([command(), "load", store], stdin=subprocess.PIPE) as load:
        load.stdin.write(dump_of(2, [insert(1, b"a", b"1")])[:-20])
        load.stdin.flush()
        wait_for(store + ".loading")
        load.kill()
        load.wait()
    assert not os.path.exists(store)
    run("load", store, stdin=dump_of(2, [insert(1, b"b", b"2")]))
    assert items(store) == [(b"b", b"2")] and not os.path.exists(store + ".loading")


def test_the_example_in_the_description_of_the_format_loads(store):
    page = (PROJECT / "docs" / "dump-format.md").read_text()
    example = page.split("```jsonl\n")[1].split("```")[0]
    run("load", store, stdin=example.encode())
    assert contents_of(run("dump", store).stdout) == contents_of(example.encode())
