#include "base/raise.hpp"
#include "icecore/query.hpp"
#include "query/rows/kept_rows.hpp"
#include "store/read/scan.hpp"

namespace icecore {

using detail::chunk_walk;
using detail::kept_rows;
using detail::row_mask;

detail::kept_rows::kept_rows(kept_query& of) : of_(&of) {
  for (std::size_t i = 0; i < select().size(); ++i) types_.push_back(select().type(i));
  of_->begin_reading();
}

std::vector<detail::kept_column> detail::kept_rows::columns_of(const chunk& c) const {
  if (c.header().kind == format::chunk_kind::columns) {
    if (auto found = columns_in(c.rows(), c.header().rows, types_)) return *std::move(found);
  }
  raise(errc::damaged, "{}: damaged at byte {} (query): the columns of a chunk cannot be read",
        of_->catalog().store().pool->origin(c.place()), link_offset(c.place()));
}

detail::kept_query& selected_rows::usable() const {
  static_cast<void>(detail::usable_core(holds_));
  of_->require_there();
  return *of_;
}

std::vector<selected_column> selected_rows::columns() const {
  const detail::projection& select = *of_->kept().select;
  std::vector<selected_column> all;
  for (std::size_t i = 0; i < select.size(); ++i) {
    all.push_back({select.name(i), static_cast<result_type>(select.type(i))});
  }
  return all;
}

std::uint64_t selected_rows::size() const {
  const detail::kept_query& of = usable();
  const detail::kept_query::range reading(of);
  return of.final_rows().rows;
}

namespace {

/// Copies runs of rows whose bits are set; row 0 of the mask is row `from` of the chunk.
void append_matches(std::span<const detail::kept_column> columns, std::size_t from, row_mask mask,
                    std::vector<result_values>& to) {
  while (mask != 0) {
    const auto first = static_cast<std::size_t>(std::countr_zero(mask));
    const auto count = static_cast<std::size_t>(std::countr_one(mask >> first));
    for (std::size_t i = 0; i < columns.size(); ++i) detail::append_rows(columns[i], from + first, count, to[i]);
    mask = first + count < detail::rows_max ? mask & ~0ULL << (first + count) : 0;
  }
}

/// The rows of a block, from the chunk's row `begin` on, that are among [from, to).
row_mask between(std::size_t begin, std::size_t from, std::size_t to) noexcept {
  row_mask mask = ~0ULL;
  if (from > begin) mask = from - begin < detail::rows_max ? mask << (from - begin) : 0;
  if (to <= begin) return 0;
  if (to - begin < detail::rows_max) mask &= (row_mask{1} << (to - begin)) - 1;
  return mask;
}

}  // namespace

std::vector<result_values> selected_rows::read(std::uint64_t from, std::uint64_t at_most) const {
  auto& q = usable();
  const kept_rows rows(q);
  std::vector<result_values> all;
  for (std::size_t i = 0; i < rows.types().size(); ++i) {
    all.push_back(detail::empty_values(rows.select().name(i), rows.types()[i]));
  }
  const std::uint64_t end = at_most > UINT64_MAX - from ? UINT64_MAX : from + at_most;
  detail::scratch memory;
  chunk_walk walk(q);
  bool more = from < end && walk.seek(from);
  for (; more && walk.first_row() < end; more = walk.next()) {
    const std::uint64_t first = walk.first_row();
    const std::uint64_t skipped = from > first ? from - first : 0;
    const std::uint64_t last = std::min<std::uint64_t>(walk.rows(), end - first);
    const auto columns = rows.columns_of(walk.now());
    if (!condition_) {
      for (std::size_t i = 0; i < columns.size(); ++i) {
        detail::append_rows(columns[i], skipped, last - skipped, all[i]);
      }
      continue;
    }
    detail::visit_kept(columns, last, &condition_->program(), memory, [&](const detail::rows& block, row_mask mask) {
      append_matches(columns, block.kept_from, mask & between(block.kept_from, skipped, last), all);
    });
  }
  return all;
}

}  // namespace icecore
