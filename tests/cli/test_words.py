"""help, mistyped names, formats of every verb, hexadecimal keys and values, and messages in the user's words."""

import json
import re

import pytest
from conftest import filled, lines, run, tag


def message(*arguments, code):
    text = run(*arguments, code=code).stderr.decode()
    assert text.startswith("icecore") and text.endswith("\n") and text.count("\n") == 1
    return text


def verbs_of(text):
    return re.findall(r"^  ([a-z]+) ", text.split("\nVerbs:\n")[1].split("\n\n")[0], re.MULTILINE)


def all_verbs():
    """Every verb and every verb of a group, as its words."""
    for verb in verbs_of(run("help").stdout.decode()):
        text = run("help", verb).stdout.decode()
        if "\nVerbs:\n" in text:
            yield from ((verb, inner) for inner in verbs_of(text))
        else:
            yield (verb,)


def test_help_says_what_the_option_says():
    assert run("help").stdout == run("--help").stdout
    for words in all_verbs():
        assert run("help", *words).stdout == run(*words, "--help").stdout
        assert f"icecore {' '.join(words)} " in run("help", *words).stdout.decode()


@pytest.mark.parametrize(
    "wrong, meant",
    [
        ("pit", "put"),
        ("gte", "get"),
        ("sacn", "scan"),
        ("histroy", "history"),
        ("rm", "del"),
        ("commit", "tag"),
        ("ls", "scan"),
    ],
)
def test_a_mistyped_verb_is_answered_with_the_nearest(wrong, meant, store):
    assert f"there is no verb '{wrong}'; the nearest is '{meant}'" in message(wrong, store, code=2)
    assert f"the nearest is '{meant}'" in message("help", wrong, code=2)


def test_a_verb_that_is_like_no_other_is_answered_without_one(store):
    assert "nearest" not in message("frobnicate", store, code=2)
    assert "the verb is missing" in message(code=2)
    assert "icecore query: the verb is missing" in message("query", code=2)
    assert "the nearest is 'start'" in message("query", "strat", code=2)
    assert "the nearest is 'start'" in message("help", "query", "strat", code=2)
    assert "no verbs of its own" in message("help", "put", "get", code=2)


def test_a_mistyped_option_is_answered_with_the_nearest(store):
    assert "no option '--limt'; the nearest is --limit" in message("scan", store, "--limt=5", code=2)
    assert "write -- before it" in message("get", store, "-quux", code=2)
    assert "'more' is one argument too many" in message("get", store, "key", "more", code=2)
    assert "KEY is missing" in message("get", store, code=2)
    assert "--limit needs a value" in message("scan", store, "--limit", code=2)
    assert "--limit is given more than once" in message("scan", store, "--limit", "1", "--limit", "2", code=2)
    assert "--at does not go with --at-time" in message(
        "get", store, "k", "--at", "1", "--at-time", "2024-01-01", code=2
    )


@pytest.mark.parametrize("text", ["-1", "-0", "+1", "1e3", "0x10", "", " 1", "many", "1.5"])
def test_numbers_are_whole_and_not_negative(store, text):
    assert f"'{text}' is not a whole number" in message(
        "scan", store, f"--limit={text}" if text else "--limit", *([] if text else [""]), code=2
    )


def test_numbers_have_a_greatest(store):
    assert "too large" in message("scan", store, "--limit", str(2**64), code=2)
    assert "4294967295" in message("bench", "--threads", str(2**32), code=2)
    filled(store, {b"key": b"value"})
    assert len(lines("scan", store, "--limit", "010", "-o", "json")) == 1  # ten, not eight


def test_a_verb_that_is_a_key_is_a_key(store):
    for word in ("get", "scan", "help"):
        run("put", store, word, "value")
        assert run("get", store, word).stdout == b"value"


def test_formats_are_said_in_words(store):
    assert "-o is 'table' or 'json', not 'xml'" in message("scan", store, "-o", "xml", code=2)
    assert "-o is 'table', 'json', 'csv' or 'arrow', not 'tabel'" in message(
        "filter", store, "true", "-o", "tabel", code=2
    )
    assert "--durability is 'none', 'tag', 'operation' or 'best', not 'much'" in message(
        "put", store, "k", "v", "--durability", "much", code=2
    )
    assert "--index is" in message("put", store, "k", "v", "--index", "heap", code=2)
    assert "--output-format does not go with --json" in message("scan", store, "-o", "table", "--json", code=2)


def test_every_verb_takes_both_names_of_the_format():
    for words in all_verbs():
        if words in (("help",), ("completion",), ("shell",)):  # a shell prints what its lines ask for, each with its own format
            continue
        text = run("help", *words).stdout.decode()
        assert "--json" in text and "-o,--output-format" in text, words


def test_verbs_that_write_tell_what_they_did(store):
    for form in (("-o", "json"), ("--json",)):
        assert lines("put", store, "key", "value", *form)[0]["written"] is True
        refused = run("put", store, "key", "value", "--if-new", *form, code=1)
        assert json.loads(refused.stdout) == {"key": "key", "written": False}
        assert lines("del", store, "key", *form) == [
            {"version": lines("stat", store, *form)[0]["clock"], "key": "key", "removed": True}
        ]
        assert json.loads(run("del", store, "key", *form, code=1).stdout) == {"key": "key", "removed": False}
        run("put", store, "key", "value")
    (made,) = lines("tag", store, "one", "--note", "n", "--time", "2024-05-01", "--json")
    assert lines("log", store, "--json") == [made] and made["name"] == "one" and made["time"] == "2024-05-01T00:00:00Z"
    assert run("dump", store, "--json").stdout == run("dump", store).stdout


def test_changes_of_queries_are_told_as_json(store):
    run("put", store, "key", "value")
    assert lines("query", "start", store, "q", "true", "--json")[0]["state"] == "ready"
    assert lines("query", "pause", store, "q", "--json") == [{"name": "q", "state": "paused"}]
    assert lines("query", "cancel", store, "q", "--json") == [{"name": "q", "state": "cancelled"}]
    assert lines("query", "drop", store, "q", "--json") == [{"name": "q", "state": "dropped"}]
    assert lines("query", "prune", store, "--json") == [{"dropped": 0}]
    assert "--keep is 'keys' or 'count', not 'all'" in message(
        "query", "start", store, "q", "true", "--keep", "all", code=2
    )


def test_keys_and_values_may_be_hexadecimal_apart(store):
    run("put", "--hex-key", store, "00ff", "text")
    assert run("get", "--hex-key", store, "00ff").stdout == b"text"
    assert run("get", "--hex", store, "00ff").stdout == b"74657874\n"
    run("put", "--hex-value", store, "plain", "0a0b")
    assert run("get", store, "plain").stdout == b"\n\x0b"
    assert run("get", "--hex-value", store, "plain").stdout == b"0a0b\n"
    assert lines("get", "--hex-value", store, "plain", "--json") == [{"version": 1, "key": "plain", "value": "0a0b"}]
    assert run("scan", "--hex-key", store).stdout == b"00ff\ttext\n706c61696e\t\\n\\x0b\n"
    assert run("scan", "--hex-value", store).stdout == b"\\x00\\xff\t74657874\nplain\t0a0b\n"
    assert (
        run("diff", "--hex-key", "--values", store, "0", code=1).stdout
        == b"+ 00ff\n    + text\n+ 706c61696e\n    + \\n\\x0b\n"
    )
    assert run("filter", "--hex-key", store, "true").stdout == run("scan", "--hex-key", store).stdout
    run("del", "--hex-key", store, "00ff")
    assert run("get", "--hex-key", store, "00ff", code=1).stdout == b""
    assert "'0': bytes in hexadecimal have two digits each, but there are 1" in message("put", "--hex-key", store, "0", "v", code=2)


def test_short_beginnings_say_how_many_letters_they_need(store):
    filled(store, {b"key": b"value"}, tags=[tag(1, "abcdef0123")])
    assert run("get", store, "key", "--at", "abcd").stdout == b"value"
    assert "at least the first 4 letters" in message("get", store, "key", "--at", "abc", code=11)


def test_messages_name_verbs_and_options_of_the_command(store, tmp_path):
    assert "`icecore put` makes one" in message("get", store, "key", code=3)
    open(store, "wb").close()
    assert "`icecore put` makes a store of it" in message("get", store, "key", code=3)
    assert "`icecore put` makes a store of it" in message("del", store, "key", code=3)
    run("put", store, "key", "value")
    assert run("get", store, "key").stdout == b"value"
    for said in (
        message("get", str(tmp_path / "no.ice"), "k", code=3),
        message("tag", str(tmp_path / "no.ice"), code=3),
    ):
        assert "creation" not in said and "options::" not in said
