"""scan: order, bounds, forms of output."""

import json

import pytest
from conftest import filled, items, lines, run, to_bytes


def random_key(rng):
    return bytes(rng.choice(b"\0ab\xfe\xff") for _ in range(rng.randrange(5)))


def expected(pairs, prefix=None, first=None, end=None, reverse=False, limit=None):
    found = [
        (k, v)
        for k, v in sorted(pairs.items())
        if (prefix is None or k.startswith(prefix)) and (first is None or k >= first) and (end is None or k < end)
    ]
    if reverse:
        found.reverse()
    return found if limit is None else found[:limit]


def test_bounds_prefix_reverse_and_limit_select_as_sorting_does(store, rng):
    pairs = {random_key(rng): rng.randbytes(rng.randrange(4)) for _ in range(300)}
    filled(store, pairs)
    for _ in range(60):
        prefix, first, end = (random_key(rng) if rng.random() < 0.5 else None for _ in range(3))
        reverse = rng.random() < 0.5
        limit = rng.randrange(6) if rng.random() < 0.3 else None
        options = ["--hex"]
        for name, key in (("--prefix", prefix), ("--from", first), ("--to", end)):
            if key is not None:
                options += [name, key.hex()]
        options += ["--reverse"] * reverse + ([] if limit is None else ["--limit", str(limit)])
        found = [
            (bytes.fromhex(i["key"]), bytes.fromhex(i["value"])) for i in lines("scan", store, "-o", "json", *options)
        ]
        assert found == expected(pairs, prefix, first, end, reverse, limit), options


def test_an_empty_prefix_selects_everything(store):
    filled(store, {b"": b"", b"a": b""})
    assert len(items(store, "--prefix", "")) == 2


def test_table_lines_are_escaped_and_can_be_cut(store):
    filled(store, {b"a\tb\n": b"\\ \xc3\xbc \x7f\xc2\x85\xff", b"k": b""})
    out = run("scan", store).stdout
    assert out == b"a\\tb\\n\t\\\\ \xc3\xbc \\x7f\\xc2\\x85\\xff\nk\t\n"


def test_table_lines_are_never_cut_off_in_a_pipe(store):
    filled(store, {b"key": b"v" * 10_000})
    assert run("scan", store).stdout == b"key\t" + b"v" * 10_000 + b"\n"


def test_json_shows_text_as_it_is_and_the_rest_as_base64(store):
    texts = [b"", b"plain", "ü€𝄞".encode(), b"tab\tnewline\nreturn\r", b'"quoted" \\']
    others = [
        b"\0",
        b"\x1b[31m",
        b"\x7f",
        b"\xc2\x85",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xe2\x82",
    ]
    filled(store, {str(i).encode(): value for i, value in enumerate(texts + others)})
    found = {int(i["key"]): i["value"] for i in lines("scan", store, "-o", "json")}
    for i, value in enumerate(texts):
        assert found[i] == value.decode()
    for i, value in enumerate(others, len(texts)):
        assert set(found[i]) == {"base64"} and to_bytes(found[i]) == value


def test_keys_only_can_end_each_key_with_a_zero_byte(store):
    filled(store, {b"a\nb": b"x", b"c": b"y"})
    assert run("scan", store, "--keys-only").stdout == b"a\\nb\nc\n"
    assert run("scan", store, "--keys-only", "-0").stdout == b"a\nb\0c\0"
    assert run("scan", store, "--keys-only", "-o", "json").stdout == b'{"key":"a\\nb"}\n{"key":"c"}\n'
    run("scan", store, "-0", code=2)


def test_each_line_of_json_is_a_whole_object(store, rng):
    pairs = {rng.randbytes(rng.randrange(20)): rng.randbytes(rng.randrange(200)) for _ in range(200)}
    filled(store, pairs)
    out = run("scan", store, "-o", "json").stdout
    assert out.endswith(b"\n") and all(json.loads(line) for line in out.splitlines())
    assert items(store) == expected(pairs)


@pytest.mark.parametrize("options", [(), ("--reverse",), ("-o", "json"), ("--prefix", "x")])
def test_an_empty_version_has_no_lines(store, options):
    run("put", store, "key", "value")
    assert run("scan", store, "--at", "0", *options).stdout == b""
