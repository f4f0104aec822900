// Reads the columns of a kept query chunk by chunk, for whoever copies them or asks filters about them.
//
//   kept_rows rows(q);
//   chunk_walk walk(q);
//   for (bool more = walk.seek(0); more; more = walk.next()) use(rows.columns_of(walk.now()));
//
// Threads: one object, one thread. Lifetime: a query that is dropped meanwhile keeps its space as long as this lives.
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "filter/program.hpp"
#include "query/kept/chunk_walk.hpp"
#include "query/media/column_rows.hpp"

namespace icecore::detail {

class kept_rows {
 public:
  explicit kept_rows(kept_query& of);
  ~kept_rows() { of_->end_reading(); }
  kept_rows(const kept_rows&) = delete;
  kept_rows& operator=(const kept_rows&) = delete;

  [[nodiscard]] const projection& select() const noexcept { return *of_->kept().select; }
  [[nodiscard]] std::span<const column_type> types() const noexcept { return types_; }
  /// Views of a chunk's columns. errc::damaged.
  [[nodiscard]] std::vector<kept_column> columns_of(const chunk& c) const;

 private:
  kept_query* of_;
  std::vector<column_type> types_;
};

/// Calls visit(block, mask) for each 64 rows of a chunk some of which match; `condition` is null if all do.
template <typename Visit>
void visit_kept(std::span<const kept_column> columns, std::size_t count, const filter_program* condition,
                scratch& memory, const Visit& visit) {
  rows block;
  block.kept = columns.data();
  for (std::size_t from = 0; from < count; from += rows_max) {
    block.size = std::min(rows_max, count - from);
    block.kept_from = from;
    const row_mask mask = condition != nullptr ? condition->test(block, memory) : block.mask();
    if (mask != 0) visit(block, mask);
  }
}

}  // namespace icecore::detail
