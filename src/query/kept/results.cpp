#include <algorithm>

#include "base/raise.hpp"
#include "query/kept/chunk_walk.hpp"
#include "query/media/bit_rows.hpp"
#include "query/media/key_rows.hpp"
#include "store/read/scan.hpp"

namespace icecore {
/// Reads chunk by chunk, 64 rows at a time, so that the lookups of values overlap.
struct [[gnu::visibility("hidden")]] query_rows::reading {
  static constexpr std::size_t block_rows = 64;

  /// The keys of one chunk's rows, one by one.
  class chunk_keys {
   public:
    /// `sorted`, of this engine, is kept from chunk to chunk.
    chunk_keys(const detail::store_core& core, const detail::kept_query& of, const detail::chunk& c,
               std::shared_ptr<const detail::sorted_keys>& sorted)
        : packed_(c.rows()) {
      if (c.header().kind != format::chunk_kind::bits) return;
      const index::ordered_links& links = detail::in_key_order(core, sorted);
      found_ = detail::with_engine(
          core, [&](const auto& engine) { return detail::keys_of_bit_rows(engine, links, of.definition().at, c); });
      is_whole_ = found_.has_value();
      if (!found_) found_.emplace();
    }

    [[nodiscard]] bool next() {
      if (!found_) return packed_.next();
      if (number_ == found_->size()) return false;
      ++number_;
      return true;
    }
    [[nodiscard]] std::string_view key() const noexcept { return found_ ? (*found_)[number_ - 1] : packed_.key(); }
    /// Behind the last one: whether these were all.
    [[nodiscard]] bool ended_well() const noexcept { return found_ ? is_whole_ : packed_.ended_well(); }

   private:
    detail::key_rows_reader packed_;
    std::optional<std::vector<std::string_view>> found_;  // if the chunk has bits
    bool is_whole_ = true;
    std::size_t number_ = 0;
  };

  reading(pin of_store, std::shared_ptr<detail::kept_query> q, std::uint64_t first, bool values)
      : holds(std::move(of_store)), of(std::move(q)), from(first), with_values(values) {
    of->begin_reading();
  }
  ~reading() { of->end_reading(); }
  reading(const reading&) = delete;
  reading& operator=(const reading&) = delete;

  void seek(std::uint64_t row);
  void fill();
  void open() {
    keys.emplace(holds.core(), *of, walk.now(), sorted);
    number = walk.first_row();
  }
  void require_open() const { static_cast<void>(detail::usable_core(holds)); }

  pin holds;
  std::shared_ptr<detail::kept_query> of;
  std::uint64_t from;
  bool with_values;

  detail::chunk_walk walk{*of};
  std::shared_ptr<const detail::sorted_keys> sorted;
  std::optional<chunk_keys> keys;
  std::uint64_t number = 0;  // of the next row

  std::vector<std::string> block_keys;
  std::vector<query_row> block;
  std::size_t position = 0;
};

void query_rows::reading::seek(std::uint64_t row) {
  keys.reset();
  block.clear();
  position = 0;
  number = row;
  if (!walk.seek(row)) return;  // behind the last one that is final
  open();
  while (number < row && keys->next()) ++number;
}

void query_rows::reading::fill() {
  require_open();
  of->require_there();
  block.clear();
  block_keys.clear();
  position = 0;
  block_keys.reserve(block_rows);
  while (block.size() < block_rows) {
    if (keys && keys->next()) {
      block_keys.emplace_back(keys->key());
      block.push_back({number++, block_keys.back(), std::nullopt});
      continue;
    }
    if (keys && !keys->ended_well()) {
      const link at = walk.now().place();
      raise(errc::damaged, "{}: damaged at byte {} (query): the rows of a chunk cannot be read",
            of->catalog().store().pool->origin(at), link_offset(at));
    }
    if (!walk.next()) break;
    open();
  }
  if (!with_values || block.empty()) return;
  std::vector<std::string_view> wanted(block_keys.begin(), block_keys.end());
  std::vector<std::optional<std::string_view>> found(wanted.size());
  const icecore::version at = of->definition().at;
  detail::with_engine(holds.core(), [&](const auto& engine) { engine.find_many(wanted, &at, 0, found); });
  for (std::size_t i = 0; i < block.size(); ++i) block[i].value = found[i];
}

query_rows::query_rows(pin holds, std::shared_ptr<detail::kept_query> of, std::uint64_t from, bool with_values)
    : reading_(std::make_unique<reading>(std::move(holds), std::move(of), from, with_values)) {}
query_rows::~query_rows() = default;
query_rows::query_rows(query_rows&&) noexcept = default;
query_rows& query_rows::operator=(query_rows&&) noexcept = default;

query_rows::iterator query_rows::begin() & {
  reading_->require_open();
  reading_->of->require_there();
  reading_->seek(reading_->from);
  reading_->fill();
  return iterator(this);
}

void query_rows::step() {
  if (++reading_->position == reading_->block.size()) reading_->fill();
}

bool query_rows::at_end() const noexcept { return reading_->position >= reading_->block.size(); }
const query_row& query_rows::current() const noexcept { return reading_->block[reading_->position]; }

}  // namespace icecore
