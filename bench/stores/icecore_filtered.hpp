// icecore in the suite `query`, which asks of it more than of other stores.
#pragma once

#include "filtered.hpp"
#include "icecore/icecore.hpp"

namespace icecore::bench {

class icecore_filtered final : public filtered_store {
 public:
  /// Every write is durable, as far as the folder can be; flushes are executed in memory too.
  icecore_filtered(const std::filesystem::path& folder, index_kind index, unsigned recovery_threads);

  void load(std::span<const filtered_pair> pairs) override;
  void find_below(std::int64_t below, unsigned threads, std::string& keys) override;

  [[nodiscard]] icecore::store& store() noexcept { return store_; }
  /// The condition `number < below`, as an expression.
  [[nodiscard]] static filter condition(std::int64_t below);

 private:
  icecore::store store_;
};

}  // namespace icecore::bench
