// Cursors over several strata and a young generation: every sequence of moves shows what a model shows.
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "icecore/icecore.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

using version_items = std::map<std::string, std::string>;

/// Compared with a cursor after each of its moves.
class model_cursor {
 public:
  explicit model_cursor(const version_items& of) : of_(&of), at_(of.end()) {}
  void seek_first() { at_ = of_->begin(); }
  void seek_last() { at_ = of_->empty() ? of_->end() : std::prev(of_->end()); }
  void seek(const std::string& key) { at_ = of_->lower_bound(key); }
  void seek_after(const std::string& key) { at_ = of_->upper_bound(key); }
  void seek_before(const std::string& key) {
    const auto behind = of_->lower_bound(key);
    at_ = behind == of_->begin() ? of_->end() : std::prev(behind);
  }
  void next() { ++at_; }
  void previous() { at_ = at_ == of_->begin() ? of_->end() : std::prev(at_); }
  [[nodiscard]] bool valid() const { return at_ != of_->end(); }
  [[nodiscard]] const auto& operator*() const { return *at_; }

 private:
  const version_items* of_;
  version_items::const_iterator at_;
};

class CursorsOfPacked : public ::testing::TestWithParam<index_kind> {
 protected:
  CursorsOfPacked()
      : store_(folder_ / "packed.ice", [] {
          options opening;
          opening.index = GetParam();
          return opening;
        }()) {
    // The first generation is much larger than the others, so its stratum stays as it is.
    for (unsigned i = 0; i < 4'000; ++i) store_.insert(any_key(), "first " + std::to_string(i));
    close();
    pack();
    for (const unsigned writes : {300U, 60U}) {
      change(writes);
      pack();
    }
    EXPECT_GT(store_.stats().strata, 1U);
    change(200);
    // rows of young keys alone, longer than what a cursor reads at a time
    for (unsigned i = 0; i < 300; ++i) write("5555/" + std::to_string(1'000 + i));
    close();
  }

  [[nodiscard]] std::string any_key() {
    // some are the beginnings of others
    return std::to_string(below(10'000)).append(below(3), '\0').append(below(2), 'x');
  }
  void write(const std::string& key) { store_.insert(key, "value " + std::to_string(random_())); }
  void change(unsigned writes) {
    for (unsigned part = 0; part < 3; ++part) {
      for (unsigned i = 0; i < writes; ++i)
        below(3) == 0 ? static_cast<void>(store_.remove(any_key())) : write(any_key());
      close();
    }
  }
  void close() { versions_.push_back(store_.tag()); }
  void pack() {
    store_.compact();
    models_.clear();
  }

  unsigned below(unsigned end) { return static_cast<unsigned>(random_() % end); }

  /// What the version shows, by finds.
  const version_items& model_of(version v) {
    const auto known = models_.find(v);
    if (known != models_.end()) return known->second;
    version_items& shown = models_[v];
    for (const std::string_view key : store_.keys()) {
      if (const auto found = store_.find(key, v)) shown.emplace(key, std::string_view(*found));
    }
    return shown;
  }

  scratch folder_{place::tmpfs};
  std::minstd_rand random_{1};
  store store_;
  std::vector<version> versions_;
  std::map<version, version_items> models_;
};

TEST_P(CursorsOfPacked, show_what_a_model_shows_however_they_move) {
  for (const version v : versions_) {
    const snapshot then = store_.at(v);
    const version_items& shown = model_of(v);
    cursor at = then.cursor();
    model_cursor model(shown);
    cursor other = at;
    model_cursor other_model = model;
    for (unsigned move = 0; move < 3'000; ++move) {
      const unsigned chosen = at.valid() ? below(100) : below(10);
      const std::string key = any_key();
      const unsigned steps = below(4) == 0 ? below(200) : below(6);
      if (chosen == 0) at.seek_first(), model.seek_first();
      if (chosen == 1) at.seek_last(), model.seek_last();
      if (chosen > 1 && chosen < 4) at.seek(key), model.seek(key);
      if (chosen > 3 && chosen < 6) at.seek_after(key), model.seek_after(key);
      if (chosen > 5 && chosen < 8) at.seek_before(key), model.seek_before(key);
      if (chosen > 7 && chosen < 10) {  // what one does, the other does not
        std::swap(at, other);
        std::swap(model, other_model);
      }
      if (chosen > 9 && chosen < 15) {
        other = at;
        other_model = model;
      }
      for (unsigned i = 0; chosen > 14 && i < steps && at.valid(); ++i) {
        chosen % 5 < 3 ? at.next() : at.previous();
        chosen % 5 < 3 ? model.next() : model.previous();
        if (!at.valid() || !model.valid()) break;
        ASSERT_EQ(at->key, (*model).first) << "version " << v << ", move " << move;
      }
      ASSERT_EQ(at.valid(), model.valid()) << "version " << v << ", move " << move;
      if (!at.valid()) continue;
      ASSERT_EQ(at->key, (*model).first) << "version " << v << ", move " << move;
      ASSERT_EQ(at->value, (*model).second) << "version " << v << ", move " << move;
    }
  }
}

TEST_P(CursorsOfPacked, extract_what_a_model_shows) {
  for (const version v : versions_) {
    const version_items& shown = model_of(v);
    for (const unsigned threads : {1U, 3U}) {
      const auto found = store_.at(v).items(threads, {"3", "7"});
      auto expected = shown.lower_bound("3");
      for (const item& each : found) {
        ASSERT_NE(expected, shown.end());
        ASSERT_EQ(each.key, expected->first);
        ASSERT_EQ(each.value, expected->second);
        ++expected;
      }
      ASSERT_EQ(expected, shown.lower_bound("7"));
      ASSERT_EQ(store_.at(v).size(threads), shown.size());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Each, CursorsOfPacked,
                         ::testing::Values(index_kind::btree, index_kind::skip_list, index_kind::persistent,
                                           index_kind::hash));

}  // namespace
}  // namespace icecore::testing
