// Streaming in order to one rank: the root merges the heads of blocks that the others send it, each when it is asked.
//
//   root                                   another rank
//   room for two blocks of each            sends block 0
//   block i has come: asks for i + 1  ──►  packs and sends block i + 1, which tells the extent of block i + 2
//   ... or says stop                  ──►  ends
//
// Invariants:
//   W1. The root has at most two blocks of a rank: one that is read and one that was asked for.
//   W2. The root knows the extent of a block before it asks for it: the first ones from the start, the others from the
//       block before. So each block is one message of known size (or several, if it is too large for one).
//   W3. A rank that has sent a block waits for one credit, unless the block was its last.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/raise.hpp"
#include "cluster/gather/gather.hpp"
#include "cluster/gather/key_word.hpp"
#include "cluster/gather/parts.hpp"
#include "cluster/gather/tournament.hpp"

namespace icecore::ranks {
namespace {

enum class credit : int { stop = 0, next_block = 1 };

constexpr std::size_t align(std::size_t bytes) noexcept { return (bytes + word_bytes - 1) / word_bytes * word_bytes; }

/// A block as it travels: the extent of the next one (count 0: there is none), offsets of keys and values of any size,
/// bytes of keys and values; each array begins at a multiple of 8.
struct packed {
  static std::size_t offsets_bytes(std::uint64_t width, std::uint64_t count) noexcept {
    return width == 0 ? (count + 1) * sizeof(std::uint64_t) : 0;
  }
  static std::size_t bytes(const extent& of) noexcept {
    return sizeof(extent) + offsets_bytes(of.key_width, of.count) + offsets_bytes(of.value_width, of.count) +
           align(of.key_bytes) + align(of.value_bytes);
  }

  static void write(char* to, const pairs_view& block, const extent& next) {
    std::memcpy(to, &next, sizeof next);
    to = write_offsets(to + sizeof next, block.keys, block.count);
    to = write_offsets(to, block.values, block.count);
    to = write_bytes(to, block.keys, block.count);
    write_bytes(to, block.values, block.count);
  }

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

/// Where the block of `own` that begins at `from` ends: at the pair that makes it block_bytes or more.
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

/// A rank's part, block by block.
class blocks {
 public:
  blocks(const pairs_view& own, std::size_t block_bytes) : own_(own), block_bytes_(block_bytes) { find_next(); }

  /// The block that comes next; no pairs at the end.
  [[nodiscard]] const pairs_view& next() const noexcept { return next_; }
  void advance() {
    from_ += next_.count;
    find_next();
  }

 private:
  void find_next() { next_ = own_.slice(from_, from_ == own_.count ? from_ : block_end(own_, from_, block_bytes_)); }

  pairs_view own_;
  std::size_t block_bytes_;
  std::size_t from_ = 0;
  pairs_view next_;
};

/// What the root is told before the first block.
struct opening {
  extent first;
  std::uint64_t largest_bytes = 0;  // of a block, packed
};
constexpr int words_per_opening = sizeof(opening) / sizeof(std::uint64_t);

opening opening_of(const pairs_view& own, std::size_t block_bytes) {
  opening told{extent_of(own.slice(0, 0)), 0};
  blocks each(own, block_bytes);
  told.first = extent_of(each.next());
  for (; each.next().count > 0; each.advance()) {
    told.largest_bytes = std::max<std::uint64_t>(told.largest_bytes, packed::bytes(extent_of(each.next())));
  }
  return told;
}

/// A rank that is not the root.
class sender {
 public:
  sender(const parts& all, const gather_options& how, std::size_t largest_bytes)
      : all_(&all),
        how_(&how),
        blocks_(all.own(), how.block_bytes),
        room_(largest_bytes),
        messages_(all.comm(), how.message_bytes_max) {}

  void run() {
    if (blocks_.next().count == 0) return;
    do {
      const pairs_view block = blocks_.next();
      blocks_.advance();
      const extent next = extent_of(blocks_.next());
      packed::write(room_.data(), block, next);
      messages_.send(room_.data(), packed::bytes(extent_of(block)), how_->root, block_tag);
      messages_.wait();
    } while (blocks_.next().count > 0 && receive_credit() == credit::next_block);
  }

 private:
  [[nodiscard]] credit receive_credit() const {
    int told = 0;
    check_mpi(MPI_Recv(&told, 1, MPI_INT, how_->root, credit_tag, all_->comm(), MPI_STATUS_IGNORE), "MPI_Recv");
    return static_cast<credit>(told);
  }

  const parts* all_;
  const gather_options* how_;
  blocks blocks_;
  buffer<char> room_;
  messages messages_;
};

/// The root's view of one rank: the block it reads, and the one that is on its way.
class source {
 public:
  /// A rank that sends blocks.
  source(const parts& all, const gather_options& how, int rank, const opening& told)
      : comm_(all.comm()),
        rank_(rank),
        coming_(told.first),
        rooms_{buffer<char>(told.largest_bytes), buffer<char>(told.largest_bytes)},
        messages_(std::make_unique<messages>(all.comm(), how.message_bytes_max)) {}

  /// The root itself: one block, which is there.
  explicit source(const parts& all) : comm_(all.comm()), rank_(all.rank()), block_(all.own()), coming_(all.nothing()) {}

  /// Makes room for the first block. It comes without a credit.
  void begin() {
    if (coming_.count > 0) expect();
  }

  /// Reads on in the next block; false at the end.
  [[nodiscard]] bool load() {
    at_ = 0;
    if (coming_.count == 0) {
      block_.count = 0;
      return false;
    }
    messages_->wait();
    const char* const arrived = rooms_[room_].data();
    block_ = packed::read(arrived, coming_);
    coming_ = packed::next_of(arrived);
    room_ = 1 - room_;
    if (coming_.count > 0) {
      expect();
      give(credit::next_block);
    }
    return true;
  }

  /// Lets the rank end, whatever it still has.
  void stop() {
    if (coming_.count == 0) return;
    messages_->wait();
    coming_ = packed::next_of(rooms_[room_].data());
    if (coming_.count > 0) give(credit::stop);
    coming_.count = 0;
  }

  [[nodiscard]] const pairs_view& block() const noexcept { return block_; }
  [[nodiscard]] std::size_t at() const noexcept { return at_; }
  /// One pair on; false at the end.
  [[nodiscard]] bool advance() { return ++at_ < block_.count || load(); }
  [[nodiscard]] bool at_last() const noexcept { return at_ + 1 == block_.count; }
  /// Whether there is a pair at all.
  [[nodiscard]] bool ready() { return at_ < block_.count || load(); }

 private:
  void expect() { messages_->receive(rooms_[room_].data(), packed::bytes(coming_), rank_, block_tag); }
  void give(credit what) const {
    const int told = static_cast<int>(what);
    check_mpi(MPI_Send(&told, 1, MPI_INT, rank_, credit_tag, comm_), "MPI_Send");
  }

  MPI_Comm comm_;
  int rank_;
  pairs_view block_;
  std::size_t at_ = 0;
  extent coming_;
  buffer<char> rooms_[2];
  int room_ = 0;
  std::unique_ptr<messages> messages_;  // last: it waits before its memory goes
};

/// Pairs that were merged and not yet handed on.
class outgoing {
 public:
  outgoing(const extent& layout, std::size_t bytes_max, const std::function<void(const pairs_view&)>& sink)
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
  const std::function<void(const pairs_view&)>* sink_;
  std::size_t count_ = 0;
  std::vector<std::uint64_t> key_offsets_;
  std::vector<char> key_bytes_;
  std::vector<std::uint64_t> value_offsets_;
  std::vector<char> value_bytes_;
};

/// Keys as numbers where they are 8 bytes, else as they are: views into blocks, so the last of a block is kept.
struct word_key {
  using type = std::uint64_t;
  static type at(const source& s) noexcept { return load_key_word(s.block().keys.bytes + s.at() * word_bytes); }
  static type kept(type key, std::string&) noexcept { return key; }
  static std::string text(type key) { return key_of_word(key); }
};
struct any_key {
  using type = std::string_view;
  static type at(const source& s) noexcept { return s.block().keys[s.at()]; }
  static type kept(type key, std::string& room) { return room = key; }
  static std::string text(type key) { return std::string(key); }
};

/// Merges all sources to their ends. A key that two hold, if there is one.
template <class Key>
std::optional<std::string> merge_sources(std::vector<source>& sources, outgoing& to) {
  std::vector<std::pair<typename Key::type, std::size_t>> first;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].ready()) first.emplace_back(Key::at(sources[i]), i);
  }
  tournament<typename Key::type> least{std::span<const std::pair<typename Key::type, std::size_t>>(first)};
  std::optional<std::string> twice;
  std::string room;
  while (least.size() > 0) {
    typename Key::type key = least.key();
    source& from = sources[least.input()];
    to.append(from.block(), from.at());
    if (from.at_last()) key = Key::kept(key, room);
    if (from.advance()) {
      least.replace(Key::at(from));
    } else {
      least.remove();
    }
    // The others' heads are all not less than this key was; only the least of them can be equal to it.
    if (!twice && least.size() > 0 && least.key() == key) twice = Key::text(least.key());
  }
  to.flush();
  return twice;
}

/// The root's side.
class receiver {
 public:
  receiver(const parts& all, const gather_options& how, const std::vector<opening>& openings) : all_(&all), how_(&how) {
    sources_.reserve(openings.size());
    for (int r = 0; r < all.count(); ++r) {
      if (r == all.rank()) {
        sources_.emplace_back(all);
      } else {
        sources_.emplace_back(all, how, r, openings[static_cast<std::size_t>(r)]);
      }
    }
  }

  /// A key that two ranks hold, if there is one. Whatever happens, no rank is left waiting.
  [[nodiscard]] std::optional<std::string> run(const std::function<void(const pairs_view&)>& sink) {
    for (source& s : sources_) s.begin();
    try {
      outgoing to(all_->nothing(), how_->block_bytes, sink);
      const extent layout = all_->nothing();
      const bool words = layout.key_width == word_bytes;
      return words ? merge_sources<word_key>(sources_, to) : merge_sources<any_key>(sources_, to);
    } catch (...) {
      for (source& s : sources_) s.stop();
      throw;
    }
  }

 private:
  const parts* all_;
  const gather_options* how_;
  std::vector<source> sources_;
};

std::vector<opening> gather_openings(const parts& all, const opening& own, int root) {
  std::vector<opening> openings(all.rank() == root ? static_cast<std::size_t>(all.count()) : 0);
  check_mpi(MPI_Gather(&own, words_per_opening, MPI_UINT64_T, openings.data(), words_per_opening, MPI_UINT64_T, root,
                       all.comm()),
            "MPI_Gather");
  return openings;
}

}  // namespace

void stream(MPI_Comm comm, const pairs_view& own, const std::function<void(const pairs_view&)>& sink,
            const gather_options& how) {
  const parts all(comm, own);
  if (how.root < 0 || how.root >= all.count()) {
    raise(errc::invalid_argument, "root {}: the communicator has ranks 0 to {}", how.root, all.count() - 1);
  }
  const opening told = opening_of(all.own(), how.block_bytes);
  const std::vector<opening> openings = gather_openings(all, told, how.root);
  std::optional<sender> sending;
  std::optional<receiver> receiving;
  together(comm, [&] {
    if (all.rank() == how.root) {
      receiving.emplace(all, how, openings);
    } else {
      sending.emplace(all, how, told.largest_bytes);
    }
  });
  std::optional<std::string> twice;
  together(comm, [&] {
    if (receiving) twice = receiving->run(sink);
    if (sending) sending->run();
  });
  all.require_no_common_key(twice);
}

}  // namespace icecore::ranks
