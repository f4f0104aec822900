// Extraction over the ranks of a cluster: all ranks agree that they ask for the same, each reads its own store, and the
// pairs are moved on a separate communicator (cluster/gather).
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "cluster/cluster_core.hpp"
#include "cluster/gather/find.hpp"
#include "cluster/gather/gather.hpp"

namespace icecore::mpi {
namespace {

/// The block size of stream, unless memory is scarce.
constexpr std::size_t stream_block_bytes = 64 * 1024;
constexpr std::size_t stream_block_bytes_min = 1024;

/// Texts of bounds that two ranks share only if the bounds are equal (or by a rare chance).
std::string text_of(const std::optional<std::string>& bound) {
  return bound ? fmt::format("{}:{}", bound->size(), *bound) : "none";
}

std::int64_t digest_of(std::string_view call, version at, const extraction_options& how) {
  const std::string text = fmt::format("{} {} {} {} {} {} {}", call, at, how.root, how.linear_scan,
                                       how.memory_bytes_max, text_of(how.bounds.from), text_of(how.bounds.to));
  return static_cast<std::int64_t>(std::hash<std::string>{}(text) >> 1);
}

void check_bounds(const key_bounds& bounds) {
  if (!bounds.from || !bounds.to || *bounds.from <= *bounds.to) return;
  throw error(errc::invalid_argument,
              "the bounds of an extraction are in the wrong order: the first key is greater than the last");
}

/// The size of the blocks in which stream holds pairs: two of each rank, the root's own, and one for the sink.
std::size_t stream_block(const extraction_options& how, int ranks) {
  const std::uint64_t blocks = 2 * static_cast<std::uint64_t>(ranks) + 2;
  const std::uint64_t block = std::min<std::uint64_t>(how.memory_bytes_max / blocks, stream_block_bytes);
  if (block >= stream_block_bytes_min) return block;
  throw error(errc::invalid_argument,
              fmt::format("a stream of {} ranks needs at least {} bytes, but memory_bytes_max allows {}", ranks,
                          blocks * stream_block_bytes_min, how.memory_bytes_max));
}

/// errc::invalid_argument if the pairs need more than memory_bytes_max. O(pairs), but only if that is set.
void check_memory(const snapshot& own, const extraction_options& how) {
  if (how.memory_bytes_max == UINT64_MAX) return;
  std::uint64_t bytes = 0;
  for (const item& one : own.range(how.bounds)) {
    bytes += one.key.size() + one.value.size() + 2 * sizeof(std::uint64_t);
    if (bytes <= how.memory_bytes_max) continue;
    throw error(errc::invalid_argument,
                fmt::format("the pairs of this rank need more than the {} bytes that memory_bytes_max allows",
                            how.memory_bytes_max));
  }
}

/// Calls the caller's check with all pairs.
void check_pairs(const columns& own, const std::function<void(const item&)>& check) {
  const auto at = [](const byte_column& column, std::size_t i) {
    return std::string_view(column.bytes.data() + column.offsets[i], column.offsets[i + 1] - column.offsets[i]);
  };
  for (std::size_t i = 0; i + 1 < own.keys.offsets.size(); ++i) check({at(own.keys, i), at(own.values, i)});
}

/// Reads a range of a snapshot block by block.
class block_reader {
 public:
  block_reader(const snapshot& own, const key_bounds& bounds, std::size_t block_bytes)
      : cursor_(own.cursor()), bounds_(bounds), block_bytes_(block_bytes) {}

  ranks::pairs_view next() {
    keys_.clear();
    values_.clear();
    if (!std::exchange(begun_, true)) cursor_.seek(bounds_.from.value_or(""));
    while (keys_.bytes.size() + values_.bytes.size() < block_bytes_ && in_bounds()) {
      keys_.append(cursor_->key);
      values_.append(cursor_->value);
      cursor_.next();
    }
    return {keys_.offsets.size() - 1, keys_.view(), values_.view()};
  }

 private:
  struct column {
    std::vector<std::uint64_t> offsets{0};
    std::vector<char> bytes;

    void clear() {
      offsets.assign(1, 0);
      bytes.clear();
    }
    void append(std::string_view one) {
      bytes.insert(bytes.end(), one.begin(), one.end());
      offsets.push_back(bytes.size());
    }
    [[nodiscard]] ranks::column_view view() const noexcept { return {0, offsets.data(), bytes.data()}; }
  };

  [[nodiscard]] bool in_bounds() const { return cursor_.valid() && !(bounds_.to && cursor_->key >= *bounds_.to); }

  cursor cursor_;
  key_bounds bounds_;
  std::size_t block_bytes_;
  bool begun_ = false;
  column keys_;
  column values_;
};

ranks::pairs run(extraction_method method, const ranks::team& all, const ranks::pairs_view& own,
                 const ranks::gather_options& how) {
  switch (method) {
    case extraction_method::gather:
      return ranks::gather(all, own, how);
    case extraction_method::naive_merge:
      return ranks::naive_merge(all, own, how);
    case extraction_method::opt_merge:
      return ranks::opt_merge(all, own, how);
    case extraction_method::concatenate:
      return ranks::concatenate(all, own, how);
    case extraction_method::distributed:
      return ranks::distributed(all, own, how);
  }
  return {};
}

extracted_pairs::column shown(const ranks::column& column) {
  return {column.width, {column.offsets.data(), column.offsets.size()}, {column.bytes.data(), column.bytes.size()}};
}

extracted_pairs shown(ranks::pairs&& pairs) {
  const auto kept = std::make_shared<const ranks::pairs>(std::move(pairs));
  return {kept->count(), shown(kept->keys), shown(kept->values), kept};
}

}  // namespace

void cluster_core::enter_extraction(const std::function<void()>& check_arguments, std::int64_t digest) const {
  const agreed asked = agree_.on(step::extract_entered, attempt(check_arguments), digest);
  if (asked.least != asked.greatest) {
    agree_.refuse(errc::invalid_argument, "the ranks ask for different extractions; all must ask for the same one");
  }
  if (channel_) return;
  try {
    channel_ = std::make_unique<extraction_channel>(comm_.get(), running_);
  } catch (...) {
    agree_.ranks().gave_up();  // a collective call, the duplication of this communicator, was abandoned
    throw;
  }
}

/// Moves the pairs. All ranks throw its exceptions (gather/gather.hpp), except in two cases: MPI failed, which has
/// broken the cluster, or this rank ran out of memory outside an agreement.
template <typename Move>
auto cluster_core::with_all(Move&& move) const {
  const ranks::team& all = channel_->ranks();
  try {
    return std::forward<Move>(move)(all);
  } catch (const std::bad_alloc&) {
    if (all.failed_together()) agree_.thrown_by_all();
    throw;
  } catch (...) {
    agree_.thrown_by_all();
    throw;
  }
}

extracted_pairs cluster_core::extract(version at, extraction_method method, const extraction_options& how) const {
  const auto check_arguments = [&] {
    static_cast<void>(group_of(how.root));  // throws if there is no such rank
    check_bounds(how.bounds);
    if (method > extraction_method::distributed) throw error(errc::invalid_argument, "unknown extraction method");
    if (method == extraction_method::concatenate && !ordered()) {
      throw error(errc::invalid_argument,
                  "concatenate needs a cluster whose owners hold ranges of keys; use opt_merge for this one");
    }
  };
  ranks::gather_options gathering;
  gathering.root = how.root;
  gathering.threads = how.threads;
  gathering.heads = how.linear_scan ? ranks::heads::linear_scan : ranks::heads::tournament;
  gathering.memory_bytes_max = how.memory_bytes_max;
  begin_collective();
  return agree_.all([&] {
    enter_extraction(check_arguments, digest_of(fmt::format("extract {}", static_cast<int>(method)), at, how));
    std::unique_ptr<columns> own;
    const auto read = [&] {
      check_memory(own_->at(at), how);
      own = std::make_unique<columns>(own_->at(at).extract(how.threads, how.bounds));
      if (how.check) check_pairs(*own, how.check);
    };
    agree_.on(step::extract_read, attempt([&] { channel_->ranks().work(read); }));
    return with_all([&](const ranks::team& all) {
      try {
        return shown(run(method, all, narrowed(ranks::view_of(*own)), gathering));
      } catch (...) {
        if (running_.broken()) static_cast<void>(own.release());  // MPI may still send from it
        throw;
      }
    });
  });
}

void cluster_core::stream(version at, const extraction_sink& sink, const extraction_options& how) const {
  ranks::gather_options gathering;
  gathering.root = how.root;
  const auto check_arguments = [&] {
    static_cast<void>(group_of(how.root));  // throws if there is no such rank
    check_bounds(how.bounds);
    gathering.block_bytes = stream_block(how, ranks_);
  };
  std::vector<item> items;
  const auto hand_on = [&](const ranks::pairs_view& some) {
    items.clear();
    for (std::size_t i = 0; i < some.count; ++i) items.push_back({some.keys[i], some.values[i]});
    sink(items);
  };
  begin_collective();
  agree_.all([&] {
    enter_extraction(check_arguments, digest_of("stream", at, how));
    std::optional<block_reader> own;
    agree_.on(step::extract_read, attempt([&] { own.emplace(own_->at(at), how.bounds, gathering.block_bytes); }));
    with_all([&](const ranks::team& all) {
      ranks::stream(
          all, [&own] { return own->next(); }, hand_on, gathering);
    });
  });
}

std::optional<std::string> cluster_core::find_by_broadcast(std::string_view key, version at, int root) const {
  const auto check_arguments = [&] { static_cast<void>(group_of(root)); };  // throws if there is no such rank
  extraction_options how;
  how.root = root;
  std::optional<value> found;  // keeps the answer valid while it is sent
  const auto look = [&](std::string_view asked, version shown) -> std::optional<std::string_view> {
    found = own_->view(asked, shown);
    return found ? std::optional(found->bytes()) : std::nullopt;
  };
  begin_collective();
  return agree_.all([&] {
    enter_extraction(check_arguments, digest_of("find", at, how));
    return with_all([&](const ranks::team& all) { return ranks::broadcast_find(all, {key, at}, look, root); });
  });
}

}  // namespace icecore::mpi
