// What the writers of a story do, drawn from its seed.
//
//   planner plan(how, seed, /*depth=*/0);
//   const planned p = plan.next(number, writer);
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "content.hpp"
#include "feed_story.hpp"
#include "going_model.hpp"
#include "kept_story.hpp"
#include "pool/format.hpp"

namespace icecore::crash {

struct planned {
  enum class kind {
    insert,
    insert_new,
    remove,
    batch,
    batch_new,
    tag,
    label,
    sync,
    find,
    reopen,
    pack,
    retain,
    forget,
    hold,  ///< or release
    look,  ///< of a reader beside the writer
    query,
    feed
  };
  kind what;
  planned_query of_query{};
  planned_feed of_feed{};
  struct write {
    std::string key;
    std::optional<std::string> value;  // empty: remove
  };
  std::vector<write> writes;
  tag_options label{};
  std::string name;
  std::string note;
  bool while_open = false;  ///< packs the open store
  retention kept{};
  asked_to_forget forgotten{};
  std::uint64_t held_back = 0;  ///< so many versions before the open one; 0: the present
};

/// Draws the operations of a story.
class planner {
 public:
  planner(const story_options& how, std::uint64_t seed, unsigned depth)
      : how_(how), random_(seed), mark_(mark_of(depth)), closes_first_(depth > 0) {
    large_ = one_in(6);
    growing_ = one_in(24) || how.full_segments;
    keys_ = how.writers == 1 ? 2 + draw(8) : 1 + draw(3);  // several writers are to meet
    if (how.index == index_kind::persistent && (one_in(3) || how.full_nodes)) {
      crowd_ = one_in(6) ? two_levels + draw(14) : one_in(2) ? three_leaves + draw(3) : one_leaf + draw(6);
    }
    if (how.index == index_kind::persistent && (one_in(16) || how.full_tags)) tags_ = block_of_tags - draw(4);
    long_keys_ = how.queries && one_in(6);
  }

  [[nodiscard]] std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  [[nodiscard]] bool one_in(std::uint64_t n) { return draw(n) == 0; }
  [[nodiscard]] bool growing() const noexcept { return growing_; }
  /// Tags that nearly fill a block of their list: new ones begin another one.
  [[nodiscard]] std::uint64_t tags() const noexcept { return tags_; }
  /// Keys that nearly fill a node of the persistent index, or one of its second level: new ones come among them.
  [[nodiscard]] std::uint64_t crowd() const noexcept { return crowd_; }
  /// Keys of one leaf have more in common than those of all of them, if they came in ascending order.
  [[nodiscard]] static std::string crowd_key(std::uint64_t number) {
    constexpr std::uint64_t of_a_leaf = format::index_pairs_max - 1;
    return std::string("crowd-") + static_cast<char>('a' + number / of_a_leaf) + "-of-one-leaf-" +
           std::to_string(100 + number % of_a_leaf);
  }
  /// A key of a leaf that is nearly full: of three, the one between two others.
  [[nodiscard]] std::uint64_t full_leaf() const noexcept {
    return crowd_ >= three_leaves && !crowd_descends() ? three_leaves / 2 : 0;
  }
  /// In descending order leaves are cut in the middle, in ascending order they stay full.
  [[nodiscard]] bool crowd_descends() const noexcept { return crowd_ >= two_levels; }

  planned next(unsigned number, unsigned writer) {
    planned p{};
    if (how_.mixes) {
      if (auto mixed = mixes(number, writer)) return *mixed;
    }
    if (how_.beside && number % 2 == (closes_first_ ? 1U : 0U) && one_in(2)) {  // others close versions
      p.what = planned::kind::look;
      p.held_back = draw(16);
      return p;
    }
    // what packing leaves of several records of one version is another content
    if (how_.holds && one_in(4)) return holds();
    if (how_.expires && one_in(4)) return one_in(2) ? retains() : forgets();
    if (how_.packs && number % 2 == (closes_first_ ? 0U : 1U)) {
      p.what = one_in(how_.expires ? 2 : 3) ? planned::kind::pack : planned::kind::tag;
      p.while_open = one_in(2);
      return p;
    }
    if (how_.queries && !how_.mixes && one_in(2)) {
      if (how_.feeds && one_in(2)) {
        p.what = planned::kind::feed;
        p.of_feed = plan_feed([this](std::uint64_t below) { return draw(below); });
        return p;
      }
      p.what = planned::kind::query;
      p.of_query = plan_query([this](std::uint64_t below) { return draw(below); });
      return p;
    }
    constexpr std::uint64_t of_label = 80;
    const std::uint64_t dice = tags_ != 0 && one_in(2) ? of_label : draw(100);
    if (dice < 45) {
      p.what = one_in(5) ? planned::kind::insert_new : planned::kind::insert;
      p.writes.push_back({key(writer, true), value(number)});
    } else if (dice < 57) {
      p.what = planned::kind::remove;
      p.writes.push_back({key(writer, false), std::nullopt});
    } else if (dice < 70) {
      p.what = one_in(4) ? planned::kind::batch_new : planned::kind::batch;
      const std::uint64_t size = 1 + draw(4);
      for (std::uint64_t i = 0; i < size; ++i) {
        const bool removal = one_in(4);
        p.writes.push_back({key(writer, !removal), removal ? std::nullopt : std::optional(value(number))});
      }
    } else if (dice < 80) {
      p.what = planned::kind::tag;
    } else if (dice < 87) {
      p.what = planned::kind::label;
      p.name = one_in(3) ? "" : std::string("tag-") + mark_ + std::to_string(number);
      p.note = one_in(5) ? std::string(4096 + draw(600), 'n') : std::string(draw(30), 'n');
    } else if (dice < 92) {
      p.what = how_.writers == 1 ? planned::kind::sync : planned::kind::tag;
    } else if (dice < 97 || how_.writers > 1) {
      p.what = planned::kind::find;
      p.writes.push_back({key(writer, true), std::nullopt});
    } else {
      p.what = planned::kind::reopen;
    }
    return p;
  }

  /// Of a story that mixes: the first writer packs, and says what is kept.
  [[nodiscard]] std::optional<planned> mixes(unsigned number, unsigned writer) {
    const std::uint64_t dice = draw(12);
    if (writer == 0 && number == 0) return retains();
    planned p{};
    if (writer == 0 && dice < 5) {
      if (dice == 0) return retains();
      if (dice == 1) return holds();
      p.what = planned::kind::pack;
      p.while_open = how_.writers > 1 || one_in(2);
      return p;
    }
    if (dice < 8) {
      const bool feeds = one_in(2);
      p.what = feeds ? planned::kind::feed : planned::kind::query;
      const auto drawn = [this](std::uint64_t below) { return draw(below); };
      if (feeds) p.of_feed = plan_feed(drawn);
      if (!feeds) p.of_query = plan_query(drawn);
      p.of_feed.snapshot = false;  // its items are told by key, not by version
      return p;
    }
    if (dice == 8) {
      p.what = planned::kind::tag;
      return p;
    }
    return std::nullopt;
  }

  [[nodiscard]] planned retains() {
    constexpr retention some[] = {{}, {.tagged = true}, {.newest = 1}, {.newest = 2}, {.tagged = true, .newest = 2}};
    planned p{};
    p.what = planned::kind::retain;
    p.kept = some[draw(std::size(some))];
    return p;
  }

  [[nodiscard]] planned holds() {
    planned p{};
    p.what = planned::kind::hold;
    p.name = "hold-" + std::to_string(draw(2));
    p.held_back = draw(4);
    return p;
  }

  [[nodiscard]] planned forgets() {
    planned p{};
    p.what = planned::kind::forget;
    const std::uint64_t count = 1 + draw(2);
    for (std::uint64_t i = 0; i < count; ++i) {
      p.forgotten.keys.push_back(one_in(3) ? "shared-" + std::to_string(draw(keys_)) : secret());
    }
    if (one_in(4)) p.forgotten.prefixes.emplace_back(one_in(3) ? "secret-" : "secret-1");
    return p;
  }

  /// Values begin with a letter for their story and the number of the operation that writes them.
  [[nodiscard]] static char mark_of(unsigned depth) { return static_cast<char>('a' + depth); }

  [[nodiscard]] std::string value(unsigned number) {
    std::string v = mark_ + std::to_string(number).append(":");
    const std::uint64_t dice = draw(20);
    if (growing_ && dice < 4) return v.append(20'000 + draw(60'000), 'G');
    if (growing_ && dice < 7) return v.append(1'000 + draw(9'000), 'g');
    if (large_ && dice < 5) return v.append(4'090 + draw(400), static_cast<char>('A' + number % 26));
    return v.append(dice < 14 ? draw(24) : draw(300), static_cast<char>('a' + number % 26));
  }

 private:
  /// Keys that all writers write, where removals must be told apart: only by whoever owns the key.
  [[nodiscard]] std::string key(unsigned writer, bool shared) {
    if (how_.expires && one_in(3)) return secret();
    if (shared && crowd_ != 0 && one_in(2)) {
      const std::string beside = crowd_key(one_in(2) ? full_leaf() : draw(crowd_));
      return one_in(4) ? beside : beside + static_cast<char>('a' + draw(26));
    }
    if (shared && (how_.writers == 1 || !one_in(4))) return "shared-" + std::to_string(draw(keys_));
    const std::string own = std::string(1, static_cast<char>('A' + writer)) + std::to_string(draw(keys_));
    if (long_keys_ && one_in(3)) return own + std::string(15'000 + draw(2) * 9'000, 'k');
    return one_in(12) ? own + std::string(40 + draw(80), 'k') : own;
  }

  /// A key that is to be forgotten, of which a file may hold nothing then.
  [[nodiscard]] std::string secret() { return secrets()[draw(4)]; }

  story_options how_;
  std::mt19937_64 random_;
  char mark_;
  bool closes_first_;  // what was before may have written in the open version
  // Keys that fill about so much.
  static constexpr std::uint64_t one_leaf = 22;
  static constexpr std::uint64_t three_leaves = 78;
  static constexpr std::uint64_t two_levels = 390;
  static constexpr std::uint64_t block_of_tags = 55;

  std::uint64_t keys_;
  std::uint64_t crowd_ = 0;
  std::uint64_t tags_ = 0;
  bool large_;
  bool growing_;
  bool long_keys_;  // chunks of queries with them fill their segments
};

}  // namespace icecore::crash
