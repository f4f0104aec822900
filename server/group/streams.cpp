#include "group/streams.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/read/hidden_keys.hpp"

namespace icecore::server::group {
namespace {

using service::block_limits;
using service::is_hidden;
using service::row_block;
using service::value_codec;

bool is_full(const row_block& block, const block_limits& limits) {
  return block.size() >= limits.rows || block.bytes() >= limits.bytes;
}

class scan_stream final : public service::row_stream {
 public:
  scan_stream(icecore::cluster_snapshot at, const service::scan_request& what, std::shared_ptr<const value_codec> codec,
              alive_function alive)
      : at_(at),
        cursor_(at_.cursor(what.bounds)),
        reverse_(what.reverse),
        left_(what.limit == 0 ? ~std::uint64_t{0} : what.limit),
        values_(what.values),
        codec_(std::move(codec)),
        alive_(std::move(alive)) {}

  bool next(row_block& block, const block_limits& limits) override {
    block.clear();
    const auto held = alive_();
    if (!std::exchange(begun_, true)) reverse_ ? cursor_.seek_last() : cursor_.seek_first();
    while (left_ > 0 && cursor_.valid()) {
      if (!is_hidden(cursor_->key)) {
        if (is_full(block, limits)) return true;
        block.add(cursor_->key, values_ ? codec_->decode(cursor_->value, room_) : std::string_view(), 0);
        --left_;
      }
      reverse_ ? cursor_.previous() : cursor_.next();
    }
    return !block.empty();
  }
  [[nodiscard]] icecore::version version() const noexcept override { return at_.version(); }

 private:
  icecore::cluster_snapshot at_;
  icecore::cluster_cursor cursor_;
  bool reverse_;
  bool begun_ = false;
  std::uint64_t left_;
  bool values_;
  std::shared_ptr<const value_codec> codec_;
  alive_function alive_;
  std::string room_;
};

// Two cursors side by side: a key of one alone was made or removed, a key of both may have changed.
class difference_stream final : public service::row_stream {
 public:
  difference_stream(icecore::cluster_snapshot before, icecore::cluster_snapshot after,
                    const icecore::key_bounds& bounds, std::shared_ptr<const value_codec> codec, alive_function alive)
      : after_version_(after.version()),
        before_(before.cursor(bounds)),
        after_(after.cursor(bounds)),
        codec_(std::move(codec)),
        alive_(std::move(alive)) {}

  bool next(row_block& block, const block_limits& limits) override {
    block.clear();
    const auto held = alive_();
    if (!std::exchange(begun_, true)) {
      before_.seek_first();
      after_.seek_first();
    }
    while (before_.valid() || after_.valid()) {
      if (is_full(block, limits)) return true;
      if (!after_.valid() || (before_.valid() && before_->key < after_->key)) {
        add(block, before_->key, before_->value, std::nullopt);
        before_.next();
      } else if (!before_.valid() || after_->key < before_->key) {
        add(block, after_->key, std::nullopt, after_->value);
        after_.next();
      } else {
        if (before_->value != after_->value) add(block, after_->key, before_->value, after_->value);
        before_.next();
        after_.next();
      }
    }
    return !block.empty();
  }
  [[nodiscard]] icecore::version version() const noexcept override { return after_version_; }

 private:
  void add(row_block& block, std::string_view key, std::optional<std::string_view> before,
           std::optional<std::string_view> after) {
    if (is_hidden(key)) return;
    if (after) after = codec_->decode(*after, room_);
    block.add(key, after, 0);
    if (before) before = codec_->decode(*before, room_);
    block.add_before(before);
  }

  icecore::version after_version_;
  icecore::cluster_cursor before_;
  icecore::cluster_cursor after_;
  bool begun_ = false;
  std::shared_ptr<const value_codec> codec_;
  alive_function alive_;
  std::string room_;
};

class change_stream final : public service::row_stream {
 public:
  change_stream(icecore::cluster_feed told, const service::changes_request& what, icecore::version up_to,
                std::shared_ptr<const value_codec> codec, alive_function alive)
      : feed_(std::move(told)), what_(what), up_to_(up_to), codec_(std::move(codec)), alive_(std::move(alive)) {
    over_ = what.after >= up_to;
  }

  bool next(row_block& block, const block_limits& limits) override {
    block.clear();
    const auto held = alive_();
    while (!over_) {
      for (; position_ < batch_.changes.size(); ++position_) {
        const icecore::cluster_change& change = batch_.changes[position_];
        if (change.version > up_to_) {
          over_ = true;
          return !block.empty();
        }
        if (is_hidden(change.key) || !service::holds(what_.bounds, change.key)) continue;
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
      batch_ = feed_.next(limits.rows, std::chrono::milliseconds(100));
      position_ = 0;
    }
    return !block.empty();
  }
  [[nodiscard]] icecore::version version() const noexcept override { return up_to_; }

 private:
  icecore::cluster_feed feed_;
  service::changes_request what_;
  icecore::version up_to_;
  std::shared_ptr<const value_codec> codec_;
  alive_function alive_;
  icecore::cluster_feed_batch batch_{};
  std::size_t position_ = 0;
  bool over_ = false;
  std::string room_;
};

class history_stream final : public service::row_stream {
 public:
  history_stream(std::vector<icecore::versioned_value> records, icecore::version up_to,
                 std::shared_ptr<const value_codec> codec)
      : records_(std::move(records)), up_to_(up_to), codec_(std::move(codec)) {}

  bool next(row_block& block, const block_limits& limits) override {
    block.clear();
    for (; position_ < records_.size(); ++position_) {
      const icecore::versioned_value& record = records_[position_];
      if (record.version > up_to_) continue;
      if (is_full(block, limits)) return true;
      std::optional<std::string_view> value;
      if (record.value) value = codec_->decode(*record.value, room_);
      block.add({}, value, record.version);
    }
    return !block.empty();
  }
  [[nodiscard]] icecore::version version() const noexcept override { return up_to_; }

 private:
  std::vector<icecore::versioned_value> records_;
  icecore::version up_to_;
  std::shared_ptr<const value_codec> codec_;
  std::size_t position_ = 0;
  std::string room_;
};

}  // namespace

std::unique_ptr<service::row_stream> scan_of(icecore::cluster_snapshot at, const service::scan_request& what,
                                             std::shared_ptr<const value_codec> codec, alive_function alive) {
  return std::make_unique<scan_stream>(at, what, std::move(codec), std::move(alive));
}

std::unique_ptr<service::row_stream> differences_of(icecore::cluster_snapshot before, icecore::cluster_snapshot after,
                                                    const icecore::key_bounds& bounds,
                                                    std::shared_ptr<const value_codec> codec, alive_function alive) {
  return std::make_unique<difference_stream>(before, after, bounds, std::move(codec), std::move(alive));
}

std::unique_ptr<service::row_stream> changes_of(icecore::cluster_feed told, const service::changes_request& what,
                                                icecore::version up_to, std::shared_ptr<const value_codec> codec,
                                                alive_function alive) {
  return std::make_unique<change_stream>(std::move(told), what, up_to, std::move(codec), std::move(alive));
}

std::unique_ptr<service::row_stream> history_of(std::vector<icecore::versioned_value> records, icecore::version up_to,
                                                std::shared_ptr<const value_codec> codec) {
  return std::make_unique<history_stream>(std::move(records), up_to, std::move(codec));
}

}  // namespace icecore::server::group
