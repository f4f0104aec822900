// Streaming in order to one rank: the other ranks send blocks on request, and the root merges their heads.
//
//   root                                   another rank
//   room for two blocks of each            sends block 0
//   block i has come: asks for i + 1  ──►  packs and sends block i + 1, which gives the extent of block i + 2
//   ... or sends stop                 ──►  ends
//
// Invariants:
//   W1. The root has at most two blocks of a rank: one that it reads and one that it has requested.
//   W2. The root knows the extent of a block before it requests it: those of the first blocks from the start, every
//       other one from the block before. So each block is one message of known size (or several, if it is too large for
//       one).
//   W3. A rank that has sent a block waits for one credit, unless the block was its last.
//   W4. A rank announces the extent of a block only after it has packed the block, so it can send whatever it has
//       announced. A rank that cannot read on says so in its last block.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/raise.hpp"
#include "cluster/gather/columns/key_word.hpp"
#include "cluster/gather/columns/tournament.hpp"
#include "cluster/gather/gather.hpp"
#include "cluster/gather/parts.hpp"

namespace icecore::ranks {
namespace {

constexpr int stop_credit = 0;
constexpr int next_block_credit = 1;
constexpr int words_per_extent = sizeof(extent) / sizeof(std::uint64_t);

constexpr std::size_t align(std::size_t bytes) noexcept { return (bytes + word_bytes - 1) / word_bytes * word_bytes; }

/// A block as it is sent: the extent of the next block (count 0: there is none), offsets of keys and values of variable
/// size, bytes of keys and values; each array begins at a multiple of 8.
struct packed {
  static std::size_t offsets_bytes(std::uint64_t width, std::uint64_t count) noexcept {
    return width == 0 ? (count + 1) * sizeof(std::uint64_t) : 0;
  }
  static std::size_t bytes(const extent& of) noexcept {
    return sizeof(extent) + offsets_bytes(of.key_width, of.count) + offsets_bytes(of.value_width, of.count) +
           align(of.key_bytes) + align(of.value_bytes);
  }

  static void write(char* to, const pairs_view& block) {
    to = write_offsets(to + sizeof(extent), block.keys, block.count);
    to = write_offsets(to, block.values, block.count);
    to = write_bytes(to, block.keys, block.count);
    write_bytes(to, block.values, block.count);
  }

  static void write_next(char* to, const extent& next) noexcept { std::memcpy(to, &next, sizeof next); }

  static extent next_of(const char* from) noexcept {
    extent next;
    std::memcpy(&next, from, sizeof next);
    return next;
  }

  /// Precondition: `from` is aligned for offsets.
  static pairs_view read(const char* from, const extent& of) noexcept {
    const char* const key_offsets = from + sizeof(extent);
    const char* const value_offsets = key_offsets + offsets_bytes(of.key_width, of.count);
    const char* const keys = value_offsets + offsets_bytes(of.value_width, of.count);
    return {of.count,
            {of.key_width, reinterpret_cast<const std::uint64_t*>(key_offsets), keys},
            {of.value_width, reinterpret_cast<const std::uint64_t*>(value_offsets), keys + align(of.key_bytes)}};
  }

 private:
  static char* write_offsets(char* to, const column_view& from, std::size_t count) {
    const std::size_t size = offsets_bytes(from.width, count);
    if (size > 0) std::memcpy(to, from.offsets, size);
    return to + size;
  }
  static char* write_bytes(char* to, const column_view& from, std::size_t count) {
    const std::size_t size = from.begin_of(count);
    if (size > 0) std::memcpy(to, from.bytes, size);
    return to + align(size);
  }
};

/// Memory that only grows; growing discards its content.
class growing_buffer {
 public:
  void grow(std::size_t bytes) {
    if (bytes > memory_.size()) memory_ = buffer<char>(bytes);
  }
  [[nodiscard]] char* data() noexcept { return memory_.data(); }

 private:
  buffer<char> memory_;
};

/// The end of the block of `own` that begins at `from`: after the pair that makes it block_bytes or more.
std::size_t block_end(const pairs_view& own, std::size_t from, std::size_t block_bytes) {
  std::size_t low = from + 1;
  std::size_t high = own.count;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (packed::bytes(extent_of(own.slice(from, middle))) < block_bytes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return std::min(low, own.count);
}

/// Says that a rank cannot continue and will throw the cause.
constexpr std::uint64_t failed_count = UINT64_MAX;

/// A block that owns its memory and is ready to be sent.
class packed_block {
 public:
  [[nodiscard]] const extent& size() const noexcept { return size_; }

  void take(const pairs_view& block) {
    size_ = extent_of(block);
    buffer_.grow(packed::bytes(size_));
    packed::write(buffer_.data(), block);
  }
  void send(messages& by, const extent& next, int to_rank) {
    packed::write_next(buffer_.data(), next);
    by.send(buffer_.data(), packed::bytes(size_), to_rank, block_tag);
    by.wait();
  }

 private:
  extent size_{};
  growing_buffer buffer_;
};

/// A rank that is not the root.
class sender {
 public:
  sender(const team& ranks, const next_block& own, const gather_options& how)
      : ranks_(&ranks), own_(&own), root_(how.root), messages_(ranks, how.message_bytes_max) {}

  /// Reads the first block and returns its size, which the root must know.
  [[nodiscard]] extent begin() {
    take(now_);
    return now_.size();
  }

  void run() {
    while (now_.size().count > 0) {
      const std::exception_ptr failure = attempt([this] { take(next_); });
      extent following = next_.size();
      if (failure) following.count = failed_count;
      now_.send(messages_, following, root_);
      if (failure) std::rethrow_exception(failure);
      if (following.count > 0 && ranks_->receive(root_, credit_tag) == stop_credit) return;
      std::swap(now_, next_);
    }
  }

 private:
  /// Packs the next block and reserves the memory that sending takes, so that it can be sent once announced (W4).
  void take(packed_block& to) {
    to.take((*own_)());
    messages_.reserve(packed::bytes(to.size()));
  }

  const team* ranks_;
  const next_block* own_;
  int root_;
  packed_block now_;
  packed_block next_;
  messages messages_;
};

/// Another rank failed while the root was reading. That rank throws the cause.
struct other_failed {};

/// The root's view of one rank: the block that it reads, and the one that is under way.
class source {
 public:
  /// A rank that sends blocks. `first` is the size of its first block.
  source(const team& ranks, const gather_options& how, int rank, const extent& first)
      : ranks_(&ranks),
        rank_(rank),
        coming_(first),
        messages_(std::make_unique<messages>(ranks, how.message_bytes_max)) {}

  /// The root itself.
  explicit source(const next_block& own) : own_(&own) {}

  /// Makes room for the block in coming_.
  void make_room() {
    if (coming_.count == 0) return;
    buffers_[filling_].grow(packed::bytes(coming_));
    messages_->reserve(packed::bytes(coming_));
  }
  /// The first block arrives without a credit.
  void begin() {
    if (coming_.count > 0) receive();
  }

  /// Continues with the next block; false at the end.
  [[nodiscard]] bool load() {
    at_ = 0;
    if (own_ != nullptr) {
      block_ = (*own_)();
      return block_.count > 0;
    }
    block_.count = 0;
    if (coming_.count == 0) return false;
    messages_->wait();
    const char* const arrived = buffers_[filling_].data();
    block_ = packed::read(arrived, coming_);
    coming_ = packed::next_of(arrived);
    if (coming_.count == failed_count) {
      coming_.count = 0;
      throw other_failed();
    }
    filling_ = 1 - filling_;
    if (coming_.count > 0) ask();
    return true;
  }

  /// Makes the rank stop, even if it has more pairs.
  void stop() {
    if (coming_.count == 0) return;
    messages_->wait();
    coming_ = packed::next_of(buffers_[filling_].data());
    if (coming_.count > 0 && coming_.count != failed_count) ranks_->send(stop_credit, rank_, credit_tag);
    coming_.count = 0;
  }

  [[nodiscard]] const pairs_view& block() const noexcept { return block_; }
  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  /// Moves to the next pair; false at the end.
  [[nodiscard]] bool advance() { return ++at_ < block_.count || load(); }
  [[nodiscard]] bool at_last() const noexcept { return at_ + 1 == block_.count; }
  /// Whether there is a pair.
  [[nodiscard]] bool ready() { return at_ < block_.count || load(); }

 private:
  /// Requests the next block. If there is no room for it, stops the rank, which waits for a credit (W3).
  void ask() {
    const std::exception_ptr failure = attempt([this] {
      make_room();
      receive();
    });
    if (failure) coming_.count = 0;
    ranks_->send(failure ? stop_credit : next_block_credit, rank_, credit_tag);
    if (failure) std::rethrow_exception(failure);
  }

  void receive() { messages_->receive(buffers_[filling_].data(), packed::bytes(coming_), rank_, block_tag); }

  const team* ranks_ = nullptr;
  const next_block* own_ = nullptr;
  int rank_ = 0;
  pairs_view block_;
  std::size_t at_ = 0;
  extent coming_;
  growing_buffer buffers_[2];
  int filling_ = 0;
  std::unique_ptr<messages> messages_;  // last, so that it waits before its memory is freed
};

/// Pairs that were merged and not yet passed to the sink.
class outgoing {
 public:
  outgoing(const extent& layout, std::size_t bytes_max, const pairs_sink& sink)
      : key_width_(layout.key_width), value_width_(layout.value_width), bytes_max_(bytes_max), sink_(&sink) {
    clear();
  }

  void append(const pairs_view& from, std::size_t i) {
    append(from.keys[i], key_width_, key_offsets_, key_bytes_);
    append(from.values[i], value_width_, value_offsets_, value_bytes_);
    ++count_;
    if (key_bytes_.size() + value_bytes_.size() >= bytes_max_) flush();
  }

  void flush() {
    if (count_ == 0) return;
    (*sink_)({count_,
              {key_width_, key_offsets_.data(), key_bytes_.data()},
              {value_width_, value_offsets_.data(), value_bytes_.data()}});
    clear();
  }

 private:
  static void append(std::string_view item, std::size_t width, std::vector<std::uint64_t>& offsets,
                     std::vector<char>& bytes) {
    bytes.insert(bytes.end(), item.begin(), item.end());
    if (width == 0) offsets.push_back(bytes.size());
  }

  void clear() {
    count_ = 0;
    key_bytes_.clear();
    value_bytes_.clear();
    key_offsets_.assign(1, 0);
    value_offsets_.assign(1, 0);
  }

  std::size_t key_width_;
  std::size_t value_width_;
  std::size_t bytes_max_;
  const pairs_sink* sink_;
  std::size_t count_ = 0;
  std::vector<std::uint64_t> key_offsets_;
  std::vector<char> key_bytes_;
  std::vector<std::uint64_t> value_offsets_;
  std::vector<char> value_bytes_;
};

/// 8-byte keys as numbers; other keys as views into blocks, so the last key of a block is copied.
struct word_key {
  using type = std::uint64_t;
  static type at(const source& s) noexcept { return load_key_word(s.block().keys.bytes + s.at() * word_bytes); }
  static type kept(type key, std::string&) noexcept { return key; }
  static std::string text(type key) { return key_of_word(key); }
};
struct any_key {
  using type = std::string_view;
  static type at(const source& s) noexcept { return s.block().keys[s.at()]; }
  static type kept(type key, std::string& copy) { return copy = key; }
  static std::string text(type key) { return std::string(key); }
};

/// Merges all sources to their ends. Returns a key that two of them hold, if there is one.
template <class Key>
std::optional<std::string> merge_sources(std::vector<source>& sources, outgoing& to) {
  std::vector<std::pair<typename Key::type, std::size_t>> first;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].ready()) first.emplace_back(Key::at(sources[i]), i);
  }
  tournament<typename Key::type> least{std::span<const std::pair<typename Key::type, std::size_t>>(first)};
  std::optional<std::string> twice;
  std::string copy;
  while (least.size() > 0) {
    typename Key::type key = least.key();
    source& from = sources[least.input()];
    to.append(from.block(), from.at());
    if (from.at_last()) key = Key::kept(key, copy);
    if (from.advance()) {
      least.replace(Key::at(from));
    } else {
      least.remove();
    }
    // No other head is less than this key was, so only the least of them can be equal to it.
    if (!twice && least.size() > 0 && least.key() == key) twice = Key::text(least.key());
  }
  to.flush();
  return twice;
}

/// The root's side.
class receiver {
 public:
  /// `first` are the sizes of all ranks' first blocks.
  receiver(const team& ranks, const next_block& own, const gather_options& how, const std::vector<extent>& first) {
    sources_.reserve(first.size());
    for (int r = 0; r < ranks.size(); ++r) {
      if (r == ranks.rank()) {
        sources_.emplace_back(own);
      } else {
        sources_.emplace_back(ranks, how, r, first[static_cast<std::size_t>(r)]);
      }
    }
  }

  /// Makes room for all first blocks. It may only fail while nothing is under way.
  void make_room() {
    for (source& s : sources_) s.make_room();
  }
  void begin() {
    for (source& s : sources_) s.begin();
  }

  /// Returns a key that two ranks hold, if there is one. In every case it leaves no rank waiting.
  [[nodiscard]] std::optional<std::string> run(outgoing& to, bool words) {
    try {
      return words ? merge_sources<word_key>(sources_, to) : merge_sources<any_key>(sources_, to);
    } catch (const other_failed&) {
      for (source& s : sources_) s.stop();
      return std::nullopt;
    } catch (...) {
      for (source& s : sources_) s.stop();
      throw;
    }
  }

 private:
  std::vector<source> sources_;
};

/// Streams blocks of this layout. Returns, at the root, a key that two ranks hold, if there is one.
std::optional<std::string> stream_blocks(const team& ranks, const next_block& own, const extent& layout,
                                         const pairs_sink& sink, const gather_options& how) {
  const bool root = ranks.rank() == how.root;
  sender sending(ranks, own, how);
  extent first = layout;
  std::vector<extent> all_first;
  together(ranks, [&] {
    if (!root) first = sending.begin();
    if (root) all_first.resize(static_cast<std::size_t>(ranks.size()));
  });
  ranks.gather(&first, words_per_extent, MPI_UINT64_T, all_first.data(), how.root);
  std::optional<receiver> receiving;
  std::optional<outgoing> to;
  together(ranks, [&] {
    if (!root) return;
    to.emplace(layout, how.block_bytes, sink);
    receiving.emplace(ranks, own, how, all_first);
    receiving->make_room();
  });
  if (root) receiving->begin();
  std::optional<std::string> twice;
  agree(ranks, attempt([&] {
          if (root) {
            twice = receiving->run(*to, layout.key_width == word_bytes);
          } else {
            sending.run();
          }
        }));
  return twice;
}

void require_root(const team& ranks, int root) {
  if (root >= 0 && root < ranks.size()) return;
  raise(errc::invalid_argument, "root {} is not a rank: the communicator has ranks 0 to {}", root, ranks.size() - 1);
}

}  // namespace

void stream(const team& ranks, const pairs_view& own, const pairs_sink& sink, const gather_options& how) {
  const parts all(ranks, own);
  require_root(ranks, how.root);
  const next_block next = [&all, &how, from = std::size_t{0}]() mutable {
    const std::size_t begin = from;
    if (begin < all.own().count) from = block_end(all.own(), begin, how.block_bytes);
    return all.own().slice(begin, from);
  };
  all.require_no_common_key(stream_blocks(ranks, next, all.nothing(), sink, how));
}

void stream(const team& ranks, const next_block& own, const pairs_sink& sink, const gather_options& how) {
  require_root(ranks, how.root);
  const std::optional<std::string> twice = stream_blocks(ranks, own, extent{}, sink, how);
  together(ranks, [&] {
    if (twice) raise(errc::damaged, "two ranks hold the key '{}': each key must have one owner", readable(*twice));
  });
}

}  // namespace icecore::ranks
