// Tokens of pages and of feeds in copies, repaired and reindexed stores: what they name is there, or they are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "icecore/feed.hpp"
#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/expect.hpp"
#include "support/file.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using lines = std::vector<std::string>;

const filter& some() {
  static const filter f("value != '5' and key < 'key 270'");
  return f;
}

/// All pages behind a token.
lines rest_of_pages(const store& s, version at, std::string token, bool reverse) {
  lines all;
  for (;;) {
    const page p = s.at(at).page(some(), {.matches = 40, .reverse = reverse}, token);
    for (const item& i : p.items) all.push_back(std::string(i.key) + "=" + std::string(i.value));
    if (p.end) return all;
    token = p.token;
  }
}

/// All that is told behind a token, up to the end of a version.
lines rest_of_feed(store& s, const std::string& token, version up_to) {
  lines all;
  icecore::feed f = s.feed({.token = token});
  for (;;) {
    const feed_batch batch = f.next(50);
    for (const key_change& c : batch.changes) {
      if (c.version > up_to) return all;
      all.push_back(std::to_string(c.version) + " " + std::string(c.key) + "=" + std::string(c.value.value_or("-")));
    }
    if (batch.changes.empty()) return all;
  }
}

class Tokens : public ::testing::TestWithParam<setting> {
 protected:
  /// Versions 1 to 6; each has inserts, removals and keys that are written several times.
  void fill(store& s) {
    for (int v = 0; v < 6; ++v) {
      for (int i = 0; i < 300; ++i) {
        const std::string key = "key " + std::to_string(100 + i);
        if ((i + v) % 7 == 0) {
          s.remove(key);
        } else if ((i * v) % 3 == 0) {
          s.insert(key, std::to_string(i % 10));
          if (i % 5 == 0) s.insert(key, std::to_string((i + v) % 10));
        }
      }
      s.insert("key one", "first " + std::to_string(v));
      s.tag();
    }
    s.sync();  // feeds tell what is durable
  }
  [[nodiscard]] options opening(const std::filesystem::path& path) const { return GetParam().options_at(path); }

  struct held {
    std::string forward, backward, within, between, snapshot;
    lines forward_rest, backward_rest, within_rest, between_rest, snapshot_rest;
  };
  static constexpr version paged = 4;

  static held take_tokens(store& s) {
    held h;
    h.forward = s.at(paged).page(some(), {.matches = 25}).token;
    h.backward = s.at(paged).page(some(), {.matches = 25, .reverse = true}).token;
    icecore::feed f = s.feed({.after = 2});
    h.within = f.next(13).token;
    h.between = s.feed({.after = 4}).token();
    h.snapshot = s.feed({.after = 3, .snapshot = true}).next(30).token;
    h.forward_rest = rest_of_pages(s, paged, h.forward, false);
    h.backward_rest = rest_of_pages(s, paged, h.backward, true);
    h.within_rest = rest_of_feed(s, h.within, 6);
    h.between_rest = rest_of_feed(s, h.between, 6);
    h.snapshot_rest = rest_of_feed(s, h.snapshot, 6);
    EXPECT_GT(h.forward_rest.size(), 100U);
    EXPECT_GT(h.between_rest.size(), 50U);
    return h;
  }
  static void expect_all_good(store& s, const held& h) {
    EXPECT_EQ(rest_of_pages(s, paged, h.forward, false), h.forward_rest);
    EXPECT_EQ(rest_of_pages(s, paged, h.backward, true), h.backward_rest);
    EXPECT_EQ(rest_of_feed(s, h.within, 6), h.within_rest);
    EXPECT_EQ(rest_of_feed(s, h.between, 6), h.between_rest);
    EXPECT_EQ(rest_of_feed(s, h.snapshot, 6), h.snapshot_rest);
  }
  static void expect_all_refused(store& s, const held& h, const std::string& why) {
    const auto refused = [&](const auto& call) { expect_error(errc::bad_token, why, call); };
    refused([&] { static_cast<void>(s.at(paged).page(some(), {}, h.forward)); });
    refused([&] { static_cast<void>(s.at(paged).page(some(), {.reverse = true}, h.backward)); });
    refused([&] { static_cast<void>(s.feed({.token = h.within})); });
    refused([&] { static_cast<void>(s.feed({.token = h.snapshot})); });
  }

  scratch folder_{GetParam().where};
  std::filesystem::path path_ = folder_ / "store";
};

TEST_P(Tokens, hold_after_restart_checkpoint_copy_repair_and_in_every_index) {
  held h;
  {
    store s(path_, opening(path_));
    fill(s);
    h = take_tokens(s);
    s.checkpoint().write(folder_ / "checkpoint");
  }
  {
    options copying = opening(folder_ / "copy");
    copying.copy_of = path_;
    store copy(folder_ / "copy", copying);
  }
  EXPECT_TRUE(repair({.from = path_, .to = folder_ / "repaired"}).complete());
  EXPECT_TRUE(repair({.from = folder_ / "repaired", .to = folder_ / "repaired again"}).complete());
  {
    store s(folder_ / "repaired again");
    s.checkpoint().write(folder_ / "checkpoint of repaired");
  }
  for (const char* name : {"store", "checkpoint", "copy", "repaired", "repaired again", "checkpoint of repaired"}) {
    SCOPED_TRACE(name);
    options reading;
    reading.access = access::read_only;
    store s(folder_ / name, reading);
    expect_all_good(s, h);
    EXPECT_TRUE(s.verify().ok());
  }
  for (const char* name : {"store", "repaired"}) {
    for (const index_kind kind : {index_kind::btree, index_kind::skip_list, index_kind::persistent, index_kind::list,
                                  index_kind::hash, GetParam().index}) {
      SCOPED_TRACE(static_cast<int>(kind));
      options changing;
      changing.index = kind;
      changing.change_index = true;
      store s(folder_ / name, changing);
      expect_all_good(s, h);
    }
  }
}

TEST_P(Tokens, each_store_of_a_line_of_repairs_has_its_own_and_those_before) {
  held of_first;
  {
    store s(path_, opening(path_));
    fill(s);
    of_first = take_tokens(s);
  }
  static_cast<void>(repair({.from = path_, .to = folder_ / "second"}));
  std::string new_page;
  std::string old_page;
  {
    store s(folder_ / "second");
    s.insert("key 101", "new");
    s.tag();
    s.sync();
    new_page = s.at(7).page(some(), {.matches = 10}).token;
    old_page = s.at(paged).page(some(), {.matches = 25}).token;
  }
  static_cast<void>(repair({.from = folder_ / "second", .to = folder_ / "third"}));
  store third(folder_ / "third");
  expect_all_good(third, of_first);
  EXPECT_EQ(rest_of_pages(third, paged, old_page, false), of_first.forward_rest);
  EXPECT_FALSE(rest_of_pages(third, 7, new_page, false).empty());
  // the older ones do not know the newer ones, nor what these closed
  store first(path_, opening(path_));
  first.tag();
  first.sync();
  const std::string other_seventh = first.at(7).page(some(), {.matches = 10}).token;
  const std::string other_feed = first.feed({.after = 7}).token();
  const auto refused = [&](store& s, version at, const std::string& token, const std::string& why) {
    expect_error(errc::bad_token, why, [&] { static_cast<void>(s.at(at).page(some(), {}, token)); });
  };
  refused(first, paged, old_page, "another store");
  refused(third, 7, other_seventh, "up to version 6 only");
  expect_error(errc::bad_token, "up to version 6 only", [&] { static_cast<void>(third.feed({.token = other_feed})); });
  // behind the last version that both have
  EXPECT_EQ(rest_of_feed(third, first.feed({.after = 6}).token(), 7), (lines{"7 key 101=new"}));
}

TEST_P(Tokens, of_another_store_with_the_same_content_are_refused) {
  store s(path_, opening(path_));
  fill(s);
  {
    store other(folder_ / "other", opening(folder_ / "other"));
    fill(other);
  }
  static_cast<void>(repair({.from = folder_ / "other", .to = folder_ / "repaired"}));
  const held h = take_tokens(s);
  for (const char* name : {"other", "repaired"}) {
    SCOPED_TRACE(name);
    store other(folder_ / name);
    expect_all_refused(other, h, "another store");
    expect_error(errc::bad_token, "another store", [&] { static_cast<void>(other.feed({.token = h.between})); });
  }
}

/// Damages the bytes behind the first occurrence of a text.
void damage_text(const std::filesystem::path& path, const std::string& text) {
  std::string file = read_file(path);
  const std::size_t at = file.find(text);
  ASSERT_NE(at, std::string::npos);
  file[at] = static_cast<char>(file[at] ^ 1);
  write_file(path, file);
}

TEST_P(Tokens, of_versions_of_which_repair_lost_something_are_refused) {
  if (GetParam().files > 1) GTEST_SKIP() << "which file has the record is not known";
  held h;
  std::vector<std::string> pages(8);
  std::vector<std::string> places(8);
  std::vector<std::string> parts(8);
  {
    store s(path_, opening(path_));
    fill(s);
    s.tag();
    s.sync();
    h = take_tokens(s);
    for (version v = 1; v <= 7; ++v) {
      pages[v] = s.at(v).page(some(), {.matches = 10}).token;
      places[v] = s.feed({.after = v}).token();
      icecore::feed f = s.feed({.after = v - 1});
      parts[v] = f.next(1).token;
    }
    s.feed({.name = "before", .after = 2}).drop();
    icecore::feed kept = s.feed({.name = "kept", .after = 3});
    kept.acknowledge(kept.next(3).token);
    icecore::feed from_snapshot = s.feed({.name = "from a snapshot", .after = 4, .snapshot = true});
    from_snapshot.acknowledge(from_snapshot.next(5).token);
  }
  damage_text(path_, "first 3");  // written in version 4, replaced in version 5
  const repair_report report = repair({.from = path_, .to = folder_ / "repaired"});
  ASSERT_EQ(report.unknown.size(), 1U);
  EXPECT_EQ(report.unknown.front(), (unknown_versions{"key one", 4, 4}));
  store s(folder_ / "repaired");
  for (version v = 1; v <= 7; ++v) {
    SCOPED_TRACE(v);
    const bool altered = v == 4 || v == 5;  // in 5 there may be a record fewer
    const auto page = [&] { static_cast<void>(s.at(v).page(some(), {}, pages[v])); };
    const auto within = [&] { static_cast<void>(s.feed({.token = parts[v]})); };
    if (altered) {
      expect_error(errc::bad_token, "could not keep everything", page);
      expect_error(errc::bad_token, "could not keep everything", within);
    } else {
      EXPECT_NO_THROW(page());
      EXPECT_NO_THROW(within());
    }
    // versions that were told as a whole need not be there any more
    EXPECT_NO_THROW(static_cast<void>(s.feed({.token = places[v]})));
  }
  // a feed that stood there tells the version, or the snapshot, again
  EXPECT_EQ(s.open_feed("kept").token(), s.feed({.after = 3}).token());
  EXPECT_EQ(s.open_feed("from a snapshot").token(), s.feed({.after = 4, .snapshot = true}).token());
}

TEST_P(Tokens, are_all_refused_if_repair_cannot_tell_what_is_lost) {
  if (GetParam().files > 1) GTEST_SKIP() << "which file has the record is not known";
  held h;
  {
    store s(path_, opening(path_));
    s.insert("lonely", "never written again");
    fill(s);
    h = take_tokens(s);
  }
  damage_text(path_, "lonely");
  const repair_report report = repair({.from = path_, .to = folder_ / "repaired"});
  EXPECT_FALSE(report.complete());
  store s(folder_ / "repaired");
  expect_all_refused(s, h, "could not keep everything");
  EXPECT_NO_THROW(static_cast<void>(s.feed({.token = h.between})));
}

TEST_P(Tokens, a_damaged_page_of_lineage_is_reported_and_only_they_are_refused) {
  held h;
  held own;
  {
    store s(path_, opening(path_));
    fill(s);
    h = take_tokens(s);
  }
  static_cast<void>(repair({.from = path_, .to = folder_ / "repaired"}));
  {
    store s(folder_ / "repaired");
    own = take_tokens(s);
  }
  const std::string sound = read_file(folder_ / "repaired");
  for (const std::size_t at : {4U, 8U, 872U, 888U, 4092U}) {
    std::string file = sound;
    file[format::lineage_offset + at] = static_cast<char>(file[format::lineage_offset + at] ^ 2);
    write_file(folder_ / "repaired", file);
    const auto found = verify_file(folder_ / "repaired").damages;
    ASSERT_EQ(found.size(), 1U) << at;
    EXPECT_EQ(found.front().offset, format::lineage_offset);
    store s(folder_ / "repaired");
    expect_all_refused(s, h, "damaged");
    expect_all_good(s, own);
  }
  const repair_report report = repair({.from = folder_ / "repaired", .to = folder_ / "again"});
  EXPECT_TRUE(report.complete());
  EXPECT_EQ(report.repaired.size(), 1U);
  store again(folder_ / "again");
  expect_all_refused(again, h, "another store");
  expect_all_good(again, own);
}

TEST_P(Tokens, a_store_that_was_never_repaired_has_no_page_of_lineage) {
  {
    store s(path_, opening(path_));
    fill(s);
    s.checkpoint().write(folder_ / "checkpoint");
  }
  for (const char* name : {"store", "checkpoint"}) {
    const std::string file = read_file(folder_ / name);
    EXPECT_EQ(file.substr(format::lineage_offset, format::page_size), std::string(format::page_size, '\0'));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Tokens,
                         ::testing::Values(setting{place::tmpfs, durability::operation},
                                           setting{place::tmpfs, durability::operation, index_kind::persistent},
                                           setting{place::tmpfs, durability::none, index_kind::skip_list, 2},
                                           setting{place::tmpfs, durability::none, index_kind::hash},
                                           setting{place::disk, durability::none, index_kind::list}),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
