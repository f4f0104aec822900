"""Which version a name means: numbers, tags, latest, NAME~N and times, on every verb that takes a version."""

import re
import time

import pytest
from conftest import filled, insert, lines, run, tag, dump_of

DAY_S = 86_400
NOW_S = int(time.time())


def message(*arguments, code):
    text = run(*arguments, code=code).stderr.decode()
    assert text.startswith("icecore") and text.endswith("\n") and text.count("\n") == 1
    return text


def store_of(store, tags, clock=None):
    """Version n holds key: n for each tag (name, seconds since 1970), in this order."""
    contents = []
    for version, (name, seconds) in enumerate(tags, 1):
        contents.append(insert(version, b"key", b"%d" % version))
        contents.append(tag(version, name, int(seconds * 10**9)))
    run("load", store, stdin=dump_of(clock or len(tags) + 1, contents))
    return store


@pytest.fixture
def daily(store):
    """A tag for each of ten days: day-1 is ten days old, day-10 one day."""
    return store_of(store, [(f"day-{n}", NOW_S - (11 - n) * DAY_S) for n in range(1, 11)])


def value_at(store, at):
    return run("get", store, "key", f"--at={at}").stdout.decode()


def test_steps_back_count_tags(daily):
    assert value_at(daily, "day-7~1") == "6"
    assert value_at(daily, "day-7~") == "6"
    assert value_at(daily, "day-7~0") == "7"
    assert value_at(daily, "day-7~6") == "1"
    assert value_at(daily, "tag:day-7~2") == "5"
    assert value_at(daily, "7~3") == "4"
    assert value_at(daily, "day-7~2~2") == "3"
    # The present is what the newest tag holds, so one step back is the tag before.
    assert value_at(daily, "latest~1") == "9"
    run("put", daily, "key", "later")
    assert value_at(daily, "latest") == "later"
    assert value_at(daily, "latest~1") == "10"
    assert value_at(daily, "latest~3") == "8"


def test_steps_back_from_a_number_count_the_tags_before_it(store):
    """Versions without a tag are passed."""
    for version in (1, 2, 3, 4):
        run("put", store, "key", str(version))
        run("tag", store, f"t{version}") if version in (1, 3) else None
    # t1 is version 1, t3 version 2: puts between them are of the open version
    assert lines("log", store, "--json")[0]["name"] == "t3"
    assert value_at(store, "3~1") == "3" and value_at(store, "2~1") == "1" and value_at(store, "latest~2") == "1"


@pytest.mark.parametrize("at", ["day-1~1", "latest~10", "latest~99999999999999999999999", "day-3~3"])
def test_steps_beyond_the_first_tag_say_how_many_there_are(daily, at):
    assert "goes back" in message("get", daily, "key", f"--at={at}", code=11)


def test_a_tag_with_a_tilde_in_its_name_is_that_tag(store):
    store_of(store, [("a", 1), ("b", 2), ("b~1", 3)])
    assert value_at(store, "b~1") == "3" and value_at(store, "tag:b~1") == "3" and value_at(store, "b~1~1") == "2"


def test_times_mean_the_newest_tag_that_is_not_later(daily):
    hour = 3600
    for words, expected in [
        ("now", "10"),
        ("@%d" % NOW_S, "10"),
        ("2 days ago", "9"),
        ("2.days.ago", "9"),
        ("2 Days AGO", "9"),
        ("48 hours ago", "9"),
        ("47 hours ago", "9"),
        ("1 week ago", "4"),
        ("a week ago", "4"),
        ("last week", "4"),
        ("1 day 23 hours ago", "9"),
        (f"{10 * 24 * 60} minutes ago", "1"),
        ("an hour ago", "10"),
        ("time:2 days ago", "9"),
        ("2 days ago~1", "8"),
        (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(NOW_S - 3 * DAY_S)), "8"),
        (time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(NOW_S - 3 * DAY_S - 1)), "7"),
        (time.strftime("%Y-%m-%dT%H:%M:%S+02:00", time.gmtime(NOW_S - 3 * DAY_S + 2 * hour)), "8"),
    ]:
        assert value_at(daily, words) == expected, words
        if not words.startswith("time:") and "~" not in words:
            assert run("get", daily, "key", "--at-time", words).stdout.decode() == expected, words


def test_a_date_is_its_first_instant_in_utc(store):
    store_of(store, [("before", 1_779_235_199), ("first", 1_779_235_200), ("noon", 1_779_278_400)])  # 2026-05-20
    assert value_at(store, "2026-05-20") == "2"
    message("get", store, "key", "--at=2026-05-19", code=11)
    assert value_at(store, "2026-05-20T11:59:59") == "2"
    assert value_at(store, "2026-05-20 12:00") == "3"
    assert value_at(store, "2026-05-21") == "3"


def test_today_and_yesterday_are_dates_of_utc(store):
    today = NOW_S - NOW_S % DAY_S
    store_of(store, [("old", today - DAY_S - 1), ("yesterday's", today - DAY_S), ("today's", today)])
    assert value_at(store, "today") == "3" and value_at(store, "yesterday") == "2"
    assert value_at(store, "yesterday 23:59:59") == "2" and value_at(store, "yesterday~1") == "1"


def test_months_and_years_keep_the_day_of_the_month(store):
    store_of(store, [("ancient", 0), ("two years", NOW_S - 731 * DAY_S), ("a month", NOW_S - 31 * DAY_S)])
    assert value_at(store, "2 months ago") == "2" and value_at(store, "3 years ago") == "1"
    assert value_at(store, "1 month 3 days ago") == "2" and value_at(store, "last year") == "2"


def test_a_tag_named_like_something_else_is_reached_by_its_prefix(store):
    store_of(store, [("latest", 100), ("2", 200), ("2026-11-20", 300), ("2 days ago", 400), ("today", 500), ("x", 600)])
    assert value_at(store, "latest") == "6" and value_at(store, "tag:latest") == "1"
    assert value_at(store, "2") == "2" and value_at(store, "tag:2") == "2" and value_at(store, "tag:2~1") == "1"
    assert value_at(store, "2026-11-20") == "3" and value_at(store, "time:2026-11-20") == "6"
    assert value_at(store, "2 days ago") == "4" and value_at(store, "time:2 days ago") == "6"
    assert value_at(store, "today") == "5"


def test_a_number_goes_before_a_tag_of_that_name(store):
    store_of(store, [("3", 1), ("b", 2), ("c", 3)])
    assert value_at(store, "3") == "3" and value_at(store, "tag:3") == "1"


@pytest.mark.parametrize(
    "at",
    ["2024-13-01", "2024-02-30", "2024-01-01x", "time:soon", "2 dayz ago", "many days ago", "days ago", "ago", "time:",
     "99999999999999999999 days ago", "999999999999 days ago", "9999999 years ago", "yesterday 25:00", "-1 days ago",
     "time:-5", "2 ago", "@99999999999999999999"],
)  # fmt: skip
def test_what_is_meant_as_a_time_and_is_none_says_so(daily, at):
    code = 11 if at in ("ago",) else 2
    text = message("get", daily, "key", f"--at={at}", code=code)
    assert code == 11 or "is not a valid time" in text


def test_a_time_before_all_tags_says_which_is_the_oldest(daily, tmp_path):
    text = message("get", daily, "key", "--at", "2 years ago", code=11)
    oldest = lines("log", daily, "--reverse", "--limit", "1", "--json")[0]["time"]
    assert "every tag is newer" in text and oldest in text
    bare = filled(str(tmp_path / "bare.ice"), {b"key": b"value"})
    assert "there is no tag yet" in message("get", bare, "key", "--at", "2 days ago", code=11)


def test_a_mistyped_tag_is_answered_with_the_nearest(daily):
    assert "the nearest is 'day-4'" in message("get", daily, "key", "--at", "dya-4", code=11)
    assert "the name of a version is empty" in message("diff", daily, "", code=2)


def test_every_verb_that_takes_a_version_takes_the_same_names(daily):
    ago = "2 days ago"
    assert run("scan", daily, "--at", ago).stdout == b"key\t9\n"
    assert run("scan", daily, "--at", "latest~2").stdout == b"key\t8\n"
    assert [c["version"] for c in lines("history", daily, "key", "--at", ago, "--limit", "1", "--json")] == [9]
    assert run("diff", daily, "latest~2", ago, "--values", code=1).stdout == b"~ key\n    - 8\n    + 9\n"
    assert run("filter", daily, "true", "--at", ago).stdout == b"key\t9\n"
    changed = run("filter", daily, "true", "--changes", "latest~2", ago).stdout
    assert changed == b"9\t+\tkey\t9\n"
    fed = run("feed", daily, "mirror", "--after", "latest~2").stdout
    assert fed.startswith(b"9\t+\tkey\t9\n10\t+\t")
    assert "version 9" in run("query", "start", daily, "q", "true", "--at", ago).stdout.decode()


def test_help_says_all_forms():
    for verb, option in (("get", "--at"), ("scan", "--at"), ("diff", "A"), ("feed", "--after"), ("filter", "--at")):
        text = re.sub(r"\s+", " ", run("help", verb).stdout.decode())
        assert option in text
        for form in ("latest (the present)", "NAME~N", "2026-11-20", "2 days ago", "no zone: UTC", "tag:NAME"):
            assert form in text, (verb, form)
