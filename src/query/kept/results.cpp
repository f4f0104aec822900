#include <algorithm>

#include "base/raise.hpp"
#include "query/kept/kept_query.hpp"
#include "query/media/key_rows.hpp"
#include "store/read/scan.hpp"

namespace icecore {

using detail::chunk;

/// Reads chunk by chunk, 64 rows at a time, so that the lookups of values overlap.
struct [[gnu::visibility("hidden")]] query_rows::reading {
  static constexpr std::size_t block_rows = 64;

  reading(pin of_store, std::shared_ptr<detail::kept_query> q, std::uint64_t first, bool values)
      : holds(std::move(of_store)), of(std::move(q)), from(first), with_values(values) {
    of->begin_reading();
  }
  ~reading() { of->end_reading(); }
  reading(const reading&) = delete;
  reading& operator=(const reading&) = delete;

  void seek(std::uint64_t row);
  void load();
  void fill();
  [[nodiscard]] bool next_chunk();
  void open(const chunk& c) {
    now = c;
    keys.emplace(c.rows());
    number = before_part + c.header().rows_before;
  }
  void require_open() const { static_cast<void>(detail::usable_core(holds)); }

  pin holds;
  std::shared_ptr<detail::kept_query> of;
  std::uint64_t from;
  bool with_values;

  std::size_t part = 0;
  std::uint64_t before_part = 0;  // rows of the parts before
  std::uint64_t shown_of_part = 0;
  bool part_complete = false;
  std::optional<chunk> now;
  std::optional<detail::key_rows_reader> keys;
  std::uint64_t number = 0;  // of the next row

  std::vector<std::string> block_keys;
  std::vector<query_row> block;
  std::size_t position = 0;
};

/// The chunk of the part that has its row `row`, found from the newest by jumps.
static chunk chunk_with(const detail::chunk_source& chunks, const chunk& newest, std::uint16_t part,
                        std::uint64_t row) {
  chunk c = newest;
  const auto older = [&](link to) {
    const chunk found = chunks.require(to, part);
    if (found.header().sequence >= c.header().sequence) {
      raise(errc::damaged, "{}: damaged at byte {} (query): a chunk leads to one that is not older than itself",
            chunks.space().pools().origin(c.place()), link_offset(c.place()));
    }
    return found;
  };
  while (row < c.header().rows_before) {
    if (const link jump = c.header().jump; jump != null_link) {
      if (const chunk far = older(jump); row < far.rows_so_far()) {
        c = far;
        continue;
      }
    }
    c = older(c.header().older);
  }
  return c;
}

void query_rows::reading::load() {
  const auto shown = of->rows_of(part);
  shown_of_part = shown.rows;
  part_complete = shown.complete;
}

void query_rows::reading::seek(std::uint64_t row) {
  part = 0;
  before_part = 0;
  now.reset();
  keys.reset();
  block.clear();
  position = 0;
  number = row;
  for (;; ++part) {
    load();
    if (row < before_part + shown_of_part || !part_complete || part + 1 == of->definition().parts()) break;
    before_part += shown_of_part;
  }
  if (row >= before_part + shown_of_part) return;  // behind the last one that is final
  const auto p = static_cast<std::uint16_t>(part);
  const auto chunks = of->chunks();
  const auto newest = detail::shown_chunk(chunks, of->head_place(), p);
  open(chunk_with(chunks, *newest, p, row - before_part));
  while (number < row && keys->next()) ++number;
}

/// Goes to the next chunk with rows; false if none is final.
bool query_rows::reading::next_chunk() {
  const auto chunks = of->chunks();
  for (;;) {
    const auto p = static_cast<std::uint16_t>(part);
    if (now && now->rows_so_far() < shown_of_part) {
      open(chunks.require(chunks.place_after(*now), p));
    } else if (!now && number < before_part + shown_of_part) {
      const auto newest = detail::shown_chunk(chunks, of->head_place(), p);
      open(chunk_with(chunks, *newest, p, number - before_part));
    } else if (part_complete && part + 1 < of->definition().parts()) {
      before_part += shown_of_part;
      ++part;
      now.reset();
      load();
      continue;
    } else {
      return false;
    }
    if (now->header().rows > 0) return true;
  }
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
      block_keys.push_back(keys->key());
      block.push_back({number++, block_keys.back(), std::nullopt});
      continue;
    }
    if (keys && !keys->ended_well()) {
      const link at = now->place();
      raise(errc::damaged, "{}: damaged at byte {} (query): the rows of a chunk cannot be read",
            of->catalog().core().the_pool().origin(at), link_offset(at));
    }
    if (!next_chunk()) break;
  }
  if (!with_values || block.empty()) return;
  std::vector<std::string_view> wanted(block_keys.begin(), block_keys.end());
  std::vector<std::optional<std::string_view>> found(wanted.size());
  const icecore::version at = of->definition().at;
  detail::with_engine(of->catalog().core(), [&](const auto& engine) { engine.find_many(wanted, &at, 0, found); });
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
