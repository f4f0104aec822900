// What a thread does with an icecore store that is measured.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "icecore/icecore.hpp"
#include "store.hpp"

namespace icecore::bench {

class icecore_session final : public session {
 public:
  explicit icecore_session(icecore::store& store) : store_(store) {}

  version insert(std::string_view key, std::string_view value) override { return store_.insert(key, value); }
  version remove(std::string_view key) override { return store_.remove(key).value(); }
  void tag() override { store_.tag(); }

  std::optional<std::string_view> find(std::string_view key, version at) override {
    value_ = store_.find(key, at);
    return value_ ? std::optional<std::string_view>(*value_) : std::nullopt;
  }

  void find_many(std::span<const std::string_view> keys, std::span<const version> at,
                 std::span<std::optional<std::uint64_t>> out) override {
    found_.resize(keys.size());
    const pin holds = store_.find_many(keys, at, found_);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      out[i] = found_[i] ? std::optional(number_of(*found_[i])) : std::nullopt;
    }
  }

  void history(std::string_view key, std::vector<recorded_change>& out) override {
    for (const auto& [stamped, value] : store_.history(key)) {
      out.push_back({stamped, value ? std::optional(number_of(*value)) : std::nullopt});
    }
  }

  std::uint64_t count_differences(version before, version after) override {
    std::uint64_t count = 0;
    auto differing = store_.diff(before, after);
    for ([[maybe_unused]] const difference& one : differing) ++count;
    return count;
  }

  void extract(version at, pair_columns& out, unsigned threads) override {
    out.set_count(store_.at(at).extract({.keys = out.keys(),
                                         .key_size = out.key_size(),
                                         .values = out.values(),
                                         .value_size = out.value_size(),
                                         .capacity = out.capacity()},
                                        threads));
  }

 private:
  icecore::store& store_;
  std::optional<value> value_;  // what find() returned last
  std::vector<std::optional<std::string_view>> found_;
};

}  // namespace icecore::bench
