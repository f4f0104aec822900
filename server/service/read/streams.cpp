#include "service/read/streams.hpp"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "icecore/changes.hpp"
#include "icecore/feed.hpp"
#include "icecore/filter.hpp"
#include "icecore/history.hpp"
#include "service/read/hidden_keys.hpp"

namespace icecore::service {
namespace {

bool is_full(const row_block& block, const block_limits& limits) {
  return block.size() >= limits.rows || block.bytes() >= limits.bytes;
}

class scan_stream final : public row_stream {
 public:
  scan_stream(icecore::snapshot at, const scan_request& what, std::shared_ptr<const value_codec> codec, key_test shown)
      : at_(std::move(at)),
        range_(what.reverse ? at_.range(what.bounds).reversed() : at_.range(what.bounds)),
        left_(what.limit == 0 ? ~std::uint64_t{0} : what.limit),
        values_(what.values),
        versions_(what.versions),
        codec_(std::move(codec)),
        shown_(std::move(shown)) {}

  bool next(row_block& block, const block_limits& limits) override {
    block.clear();
    if (!position_) position_.emplace(range_.begin());
    while (left_ > 0 && *position_ != range_.end()) {
      const icecore::item& item = **position_;
      if (!is_hidden(item.key) && (!shown_ || shown_(item.key))) {
        if (is_full(block, limits)) return true;
        const std::string_view value = values_ ? codec_->decode(item.value, room_) : std::string_view();
        block.add(item.key, value, versions_ ? version_of(item.key) : 0);
        --left_;
      }
      ++*position_;
    }
    return !block.empty();
  }
  [[nodiscard]] icecore::version version() const noexcept override { return at_.version(); }

 private:
  [[nodiscard]] icecore::version version_of(std::string_view key) const {
    icecore::key_history past(at_.holds(), key, at_.version());
    return past.begin()->version;
  }

  icecore::snapshot at_;
  icecore::item_range range_;
  std::optional<icecore::item_range::iterator> position_;  // empty before the first block
  std::uint64_t left_;
  bool values_;
  bool versions_;
  std::shared_ptr<const value_codec> codec_;
  key_test shown_;
  std::string room_;
};

class history_stream final : public row_stream {
 public:
  history_stream(icecore::key_history past, icecore::version oldest, icecore::version up_to,
                 std::shared_ptr<const value_codec> codec)
      : past_(std::move(past)), oldest_(oldest), up_to_(up_to), codec_(std::move(codec)) {}

  bool next(row_block& block, const block_limits& limits) override {
    block.clear();
    if (!position_) position_.emplace(past_.begin());
    for (; !over_ && *position_ != past_.end(); ++*position_) {
      if (is_full(block, limits)) return true;
      const icecore::change& record = **position_;
      over_ = record.version <= oldest_;  // the oldest version shows this one, and none before it
      if (over_ && !record.value) break;
      std::optional<std::string_view> value;
      if (record.value) value = codec_->decode(*record.value, room_);
      block.add({}, value, record.version);
    }
    return !block.empty();
  }
  [[nodiscard]] icecore::version version() const noexcept override { return up_to_; }

 private:
  icecore::key_history past_;
  std::optional<icecore::key_history::iterator> position_;  // empty before the first block
  icecore::version oldest_;
  bool over_ = false;
  icecore::version up_to_;
  std::shared_ptr<const value_codec> codec_;
  std::string room_;
};

class difference_stream final : public row_stream {
 public:
  difference_stream(icecore::diff_range range, icecore::version after, std::shared_ptr<const value_codec> codec)
      : range_(std::move(range)), after_(after), codec_(std::move(codec)) {}

  bool next(row_block& block, const block_limits& limits) override {
    block.clear();
    if (!position_) position_.emplace(range_.begin());
    for (; *position_ != range_.end(); ++*position_) {
      const icecore::difference& found = **position_;
      if (is_hidden(found.key)) continue;
      if (is_full(block, limits)) return true;
      std::optional<std::string_view> after;
      if (found.after) after = codec_->decode(*found.after, room_);
      block.add(found.key, after, 0);
      std::optional<std::string_view> before;
      if (found.before) before = codec_->decode(*found.before, room_);
      block.add_before(before);
    }
    return !block.empty();
  }
  [[nodiscard]] icecore::version version() const noexcept override { return after_; }

 private:
  icecore::diff_range range_;
  std::optional<icecore::diff_range::iterator> position_;  // empty before the first block
  icecore::version after_;
  std::shared_ptr<const value_codec> codec_;
  std::string room_;
};

class change_stream final : public row_stream {
 public:
  change_stream(icecore::feed told, const changes_request& what, icecore::version up_to,
                std::shared_ptr<const value_codec> codec)
      : feed_(std::move(told)), what_(what), up_to_(up_to), codec_(std::move(codec)) {}

  bool next(row_block& block, const block_limits& limits) override {
    block.clear();
    while (!over_) {
      for (; position_ < batch_.changes.size(); ++position_) {
        const icecore::key_change& change = batch_.changes[position_];
        if (change.version > up_to_) {
          over_ = true;
          return !block.empty();
        }
        if (is_hidden(change.key) || !holds(what_.bounds, change.key)) continue;
        if (is_full(block, limits)) return true;
        std::optional<std::string_view> value;
        if (change.value) value = codec_->decode(*change.value, room_);
        block.add(change.key, value, change.version);
        if (!what_.before) continue;
        std::optional<std::string_view> before;
        if (change.before) before = codec_->decode(*change.before, room_);
        block.add_before(before);
      }
      over_ = batch_.told >= up_to_;
      if (over_) break;
      batch_ = feed_.next(limits.rows, std::chrono::milliseconds(100));  // waits only for writes that are under way
      position_ = 0;
    }
    return !block.empty();
  }
  [[nodiscard]] icecore::version version() const noexcept override { return up_to_; }

 private:
  icecore::feed feed_;
  changes_request what_;
  icecore::version up_to_;
  std::shared_ptr<const value_codec> codec_;
  icecore::feed_batch batch_{};
  std::size_t position_ = 0;
  bool over_ = false;
  std::string room_;
};

std::string literal_of(std::string_view bytes) {
  std::string text = "x'";
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text + "'";
}

}  // namespace

std::unique_ptr<row_stream> scan_of(icecore::snapshot at, const scan_request& what,
                                    std::shared_ptr<const value_codec> codec, key_test shown) {
  return std::make_unique<scan_stream>(std::move(at), what, std::move(codec), std::move(shown));
}

std::unique_ptr<row_stream> history_of(icecore::key_history past, icecore::version oldest, icecore::version up_to,
                                       std::shared_ptr<const value_codec> codec) {
  return std::make_unique<history_stream>(std::move(past), oldest, up_to, std::move(codec));
}

std::unique_ptr<row_stream> differences_of(icecore::diff_range range, icecore::version after,
                                           std::shared_ptr<const value_codec> codec) {
  return std::make_unique<difference_stream>(std::move(range), after, std::move(codec));
}

std::unique_ptr<row_stream> changes_of(icecore::feed told, const changes_request& what, icecore::version up_to,
                                       std::shared_ptr<const value_codec> codec) {
  return std::make_unique<change_stream>(std::move(told), what, up_to, std::move(codec));
}

icecore::filter filter_of(const icecore::key_bounds& bounds) {
  constexpr std::size_t most = 8192;  // a filter's text has at most 64 KiB
  std::string text;
  if (bounds.from && bounds.from->size() <= most) text = "key >= " + literal_of(*bounds.from);
  if (bounds.to && bounds.to->size() <= most) {
    if (!text.empty()) text += " and ";
    text += "key < " + literal_of(*bounds.to);
  }
  return text.empty() ? icecore::filter() : icecore::filter(text);
}

}  // namespace icecore::service
