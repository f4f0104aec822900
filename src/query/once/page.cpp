#include <algorithm>
#include <array>
#include <bit>

#include "base/raise.hpp"
#include "filter/program.hpp"
#include "icecore/filtered.hpp"
#include "query/once/matching.hpp"
#include "query/once/token.hpp"
#include "store/read/scan.hpp"

namespace icecore {
namespace {

using detail::key_range;

/// Moves a cursor over the keys of a snapshot that can match, in one direction.
class page_walk {
 public:
  page_walk(cursor c, std::vector<key_range> ranges, bool reverse)
      : cursor_(std::move(c)), ranges_(std::move(ranges)), reverse_(reverse) {
    if (reverse_) std::ranges::reverse(ranges_);
  }

  /// To the first key behind `after`, if there is one.
  void begin(std::optional<std::string_view> after) {
    for (range_ = 0; range_ < ranges_.size(); ++range_) {
      if (enter(after)) return;
    }
  }
  [[nodiscard]] bool at_end() const noexcept { return range_ == ranges_.size(); }
  [[nodiscard]] const item& current() const noexcept { return *cursor_; }
  void step() {
    reverse_ ? cursor_.previous() : cursor_.next();
    while (!is_inside()) {
      if (++range_ == ranges_.size()) return;
      if (enter(std::nullopt)) return;
    }
  }

 private:
  bool enter(std::optional<std::string_view> after) {
    const key_range& range = ranges_[range_];
    if (!reverse_) {
      if (after && *after >= range.from) {
        cursor_.seek_after(*after);
      } else {
        cursor_.seek(range.from);
      }
    } else if (after && (!range.to || *after < *range.to)) {
      cursor_.seek_before(*after);
    } else if (range.to) {
      cursor_.seek_before(*range.to);
    } else {
      cursor_.seek_last();
    }
    return is_inside();
  }
  [[nodiscard]] bool is_inside() const noexcept {
    if (!cursor_.valid()) return false;
    const key_range& range = ranges_[range_];
    return reverse_ ? cursor_->key >= range.from : !range.to || cursor_->key < *range.to;
  }

  cursor cursor_;
  std::vector<key_range> ranges_;
  bool reverse_;
  std::size_t range_ = 0;
};

}  // namespace

page snapshot::page(const filter& condition, const page_limits& limits, std::string_view token) const {
  const auto& core = detail::usable_core(holds_);
  if (limits.matches == 0 || limits.examined == 0U) {
    raise(errc::invalid_argument, "a page of no matches, or for which no key may be looked at, would not move on");
  }
  detail::refuse_changes(condition.program().needs());
  if (condition.program().needs().version) {
    raise(errc::invalid_argument, "pages of filters that read `version` are not possible; use where()");
  }
  const detail::token_of expected{&core.the_pool(), at_, condition.fingerprint(), limits.reverse, limits.secret};
  std::optional<std::string_view> after;
  if (!token.empty()) after = detail::key_of_token(expected, token);

  const auto begun = std::chrono::steady_clock::now();
  page_walk walk(cursor(), condition.program().key_ranges(), limits.reverse);
  walk.begin(after);
  detail::scratch memory;
  icecore::page made;
  std::vector<item> matches;
  std::array<std::string_view, detail::rows_max> keys;
  std::array<std::string_view, detail::rows_max> values;
  std::string_view last;
  const auto is_full = [&] {
    return matches.size() >= limits.matches || (limits.examined && made.examined >= *limits.examined) ||
           (limits.time && made.examined > 0 && std::chrono::steady_clock::now() - begun >= *limits.time);
  };
  while (!walk.at_end() && !is_full()) {
    const std::uint64_t left = limits.examined ? *limits.examined - made.examined : detail::rows_max;
    detail::rows block;
    for (; block.size < std::min<std::uint64_t>(left, detail::rows_max) && !walk.at_end(); walk.step()) {
      keys[block.size] = walk.current().key;
      values[block.size++] = walk.current().value;
    }
    block.keys = keys.data();
    block.values = values.data();
    const detail::row_mask found = condition.program().test(block, memory);
    for (std::size_t i = 0; i < block.size; ++i) {
      ++made.examined;
      last = keys[i];
      if ((found >> i & 1U) == 0) continue;
      matches.push_back({keys[i], values[i]});
      if (matches.size() < limits.matches) continue;
      // the rest of the block is the next page's
      made.end = walk.at_end() && i + 1 == block.size;
      if (!made.end || limits.token_at_end) made.token = detail::make_token(expected, last);
      made.items = {std::move(matches), holds_};
      return made;
    }
  }
  made.end = walk.at_end();
  if (!made.end || limits.token_at_end) made.token = detail::make_token(expected, last);
  made.items = {std::move(matches), holds_};
  return made;
}

}  // namespace icecore
