#include "cluster/copy/redistribution.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/checksum.hpp"
#include "base/raise.hpp"
#include "cluster/gather/columns/pairs.hpp"
#include "cluster/messages/messenger.hpp"
#include "cluster/messages/wire.hpp"
#include "cluster/open/lost_versions.hpp"
#include "cluster/upkeep/expired_versions.hpp"
#include "icecore/record_log.hpp"

namespace icecore::mpi {
namespace {

/// The most that a rank sends in a round, unless one record is larger. All ranks may send all of it to the same rank.
std::uint64_t round_bytes(int ranks) {
  constexpr std::uint64_t at_most = std::uint64_t{16} << 20;
  constexpr std::uint64_t at_least = std::uint64_t{1} << 20;
  constexpr std::uint64_t received = std::uint64_t{256} << 20;
  return std::clamp(received / static_cast<std::uint64_t>(ranks), at_least, at_most);
}
/// MPI counts bytes in an int.
constexpr std::uint64_t message_bytes_max = std::uint64_t{1} << 30;

/// A record or a tag to be sent. Views are into its file or into a message.
struct moved : logged {
  std::uint32_t file = 0;  ///< the rank whose file holds a large value
};

void pack(packer& out, const moved& one) {
  out.number(one.at);
  out.number(one.what);
  out.text(one.key);
  switch (one.what) {
    case logged::kind::tag:
      out.number(one.time_ns);
      out.text(one.value);
      break;
    case logged::kind::removal:
      break;
    case logged::kind::small:
      out.text(one.value);
      break;
    case logged::kind::large:
      out.number(one.file);
      out.number(one.value_offset);
      out.number(one.value_size);
      out.number(one.value_crc);
      break;
  }
}

moved unpack_moved(unpacker& in) {
  moved one{{.at = in.number<version>(), .what = in.number<logged::kind>()}};
  one.key = in.text();
  switch (one.what) {
    case logged::kind::tag:
      one.time_ns = in.number<std::int64_t>();
      one.value = in.text();
      return one;
    case logged::kind::removal:
      return one;
    case logged::kind::small:
      one.value = in.text();
      return one;
    case logged::kind::large:
      one.file = in.number<std::uint32_t>();
      one.value_offset = in.number<std::uint64_t>();
      one.value_size = in.number<std::uint32_t>();
      one.value_crc = in.number<std::uint32_t>();
      return one;
  }
  throw error(errc::bad_input, "another rank sent a malformed record");
}

/// The most bytes that pack() makes of it.
std::uint64_t packed_size_max(const moved& one) {
  constexpr std::uint64_t numbers = 48;
  return numbers + one.key.size() + one.value.size();
}

/// Calls use(moved) for the items of all cursors, in order: `Cursor` has next() and now(). All records of a key come
/// from one cursor (R2).
template <typename Cursor, typename Use>
void in_order(std::vector<Cursor>& all, Use&& use) {
  const auto later = [](const Cursor* a, const Cursor* b) { return b->now().order() < a->now().order(); };
  std::vector<Cursor*> heap;
  for (Cursor& each : all) {
    if (each.next()) heap.push_back(&each);
  }
  std::ranges::make_heap(heap, later);
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, later);
    Cursor& first = *heap.back();
    heap.pop_back();
    bool more = true;
    do {
      use(first.now());
      more = first.next();
    } while (more && (heap.empty() || first.now().order() <= heap.front()->now().order()));
    if (!more) continue;
    heap.push_back(&first);
    std::ranges::push_heap(heap, later);
  }
}

/// A file of this rank, and how far it is read.
class file_cursor {
 public:
  file_cursor(std::uint32_t file, const record_log& log) : log_(&log) { now_.file = file; }

  /// The version of the last record that fits in the next `bytes` (at least one record fits); `everything` if all
  /// records fit.
  [[nodiscard]] version reach(std::uint64_t bytes) {
    stop_ = position_;
    for (std::uint64_t sum = 0; stop_ < log_->size(); ++stop_) {
      log_->prefetch(stop_ + ahead);
      sum += packed_size_max({log_->at(stop_)});
      if (stop_ > position_ && sum > bytes) break;
    }
    return stop_ == log_->size() ? everything : log_->at(stop_ - 1).at;
  }
  /// From now on next() ends after this version, or where reach() stopped.
  void bound(version last) { last_ = last; }

  [[nodiscard]] bool next() {
    if (position_ == stop_) return false;
    log_->prefetch(position_ + ahead);
    static_cast<logged&>(now_) = log_->at(position_);
    if (now_.at > last_) return false;
    ++position_;
    return true;
  }
  [[nodiscard]] const moved& now() const noexcept { return now_; }
  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }

  static constexpr version everything = version_max + 1;

 private:
  static constexpr std::size_t ahead = 8;

  const record_log* log_;
  std::size_t position_ = 0;
  std::size_t stop_ = 0;
  version last_ = 0;
  moved now_{};
};

/// The records of this rank's files of the checkpoint.
class source {
 public:
  explicit source(const redistribution& what) {
    for (auto file = static_cast<std::size_t>(what.rank); file < what.files.size();
         file += static_cast<std::size_t>(what.ranks)) {
      const auto& path = what.files[file];
      const record_log& log = logs_.emplace_back(path, what.opening->store);
      if (!what.pools.empty() && log.pool_id() != what.pools[file]) {
        throw error(errc::other_cluster,
                    fmt::format("{}: this file is pool {}, but the checkpoint's manifest names pool {}", path.native(),
                                log.pool_id(), what.pools[file]));
      }
      cursors_.emplace_back(static_cast<std::uint32_t>(file), log);
      clock_ = std::max(clock_, log.clock());
      lost_.add(log.lost_versions());
      expired_.insert(expired_.end(), log.expired_versions().begin(), log.expired_versions().end());
      if (file == 0) kept_ = log.retention();  // the cluster's: a rule of another store is that store's alone
      size_ += log.size();
      bytes_ += std::filesystem::file_size(path);
    }
  }

  [[nodiscard]] std::vector<file_cursor>& cursors() noexcept { return cursors_; }
  [[nodiscard]] version clock() const noexcept { return clock_; }
  [[nodiscard]] const version_ranges& lost_versions() const noexcept { return lost_; }
  [[nodiscard]] const std::vector<version_range>& expired_versions() const noexcept { return expired_; }
  /// What the cluster keeps; only rank 0 has it, which reads the first file.
  [[nodiscard]] const retention& kept() const noexcept { return kept_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  [[nodiscard]] bool has_queries() const noexcept { return logs_.front().has_queries(); }
  /// The total size of the files.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t position() const noexcept {
    std::uint64_t sum = 0;
    for (const file_cursor& each : cursors_) sum += each.position();
    return sum;
  }

 private:
  std::deque<record_log> logs_;
  std::vector<file_cursor> cursors_;
  version clock_ = 0;
  version_ranges lost_;
  std::vector<version_range> expired_;
  retention kept_ = retention::all();
  std::uint64_t size_ = 0;
  std::uint64_t bytes_ = 0;
};

/// Reads large values from the checkpoint's files, which any rank may have written, and checks them.
class value_reader {
 public:
  explicit value_reader(const redistribution& what) : what_(what) {}

  /// The result is valid until the next call.
  [[nodiscard]] std::string_view read(const moved& from) {
    if (from.value_size > capacity_) {
      buffer_ = std::make_unique_for_overwrite<char[]>(from.value_size);
      capacity_ = from.value_size;
    }
    const file& in = of(from.file);
    in.read(buffer_.get(), from.value_size, from.value_offset);
    if (crc32c(0, buffer_.get(), from.value_size) != from.value_crc) {
      throw error(errc::damaged,
                  fmt::format("{}: damaged at byte {} (record): the value fails its checksum; icecore verify lists "
                              "everything",
                              in.path.native(), from.value_offset));
    }
    return {buffer_.get(), from.value_size};
  }

 private:
  struct file {
    explicit file(std::filesystem::path at)
        : path(std::move(at)), descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
      if (descriptor < 0) raise_errno(errno, "open", path.native());
    }
    ~file() { ::close(descriptor); }
    file(const file&) = delete;
    file& operator=(const file&) = delete;

    void read(char* to, std::uint64_t size, std::uint64_t offset) const {
      while (size > 0) {
        const ssize_t count = ::pread(descriptor, to, size, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) raise_errno(errno, "pread", path.native());
        if (count == 0) {
          throw error(errc::truncated,
                      fmt::format("{}: the file ends at byte {}, in the middle of a value", path.native(), offset));
        }
        to += count;
        offset += static_cast<std::uint64_t>(count);
        size -= static_cast<std::uint64_t>(count);
      }
    }

    const std::filesystem::path path;
    const int descriptor;
  };

  const file& of(std::uint32_t number) {
    constexpr std::size_t open_max = 64;
    if (number >= what_.files.size()) {
      throw error(errc::bad_input, "a message from another rank names a file that the checkpoint does not have");
    }
    if (const auto known = files_.find(number); known != files_.end()) return known->second;
    if (files_.size() == open_max) files_.clear();
    return files_.try_emplace(number, what_.files[number]).first->second;
  }

  const redistribution& what_;
  std::map<std::uint32_t, file> files_;
  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
};

/// Sends bytes from every rank to every other rank.
class exchange {
 public:
  explicit exchange(agreement& agree)
      : agree_(agree),
        coming_(static_cast<std::size_t>(agree.ranks().size())),
        sent_(coming_),
        buffers_(coming_.size()),
        from_(coming_.size()) {}

  /// Returns, by rank, what that rank sent to this one; valid until the next call. Throws on all ranks if one has no
  /// memory for it, or passes a failure.
  [[nodiscard]] std::span<const std::string_view> operator()(const std::vector<packer>& to,
                                                             const std::exception_ptr& failure) {
    for (std::size_t r = 0; r < sent_.size(); ++r) sent_[r] = to[r].size();
    const ranks::team& all = agree_.ranks();
    all.alltoall(sent_.data(), 1, MPI_UINT64_T, coming_.data());
    const auto unready = attempt([&] {
      std::size_t messages = 0;
      for (std::size_t r = 0; r < coming_.size(); ++r) {
        from_[r] = buffers_[r].of(coming_[r]);
        messages += pieces(coming_[r]) + pieces(sent_[r]);
      }
      open_.clear();
      open_.reserve(messages);
    });
    agree_.on(step::restore_ready, failure ? failure : unready);  // from here on only MPI can fail
    for (std::size_t r = 0; r < from_.size(); ++r) {
      in_pieces(coming_[r], [&](std::uint64_t at, int size) {
        all.check(MPI_Irecv(buffers_[r].data() + at, size, MPI_BYTE, static_cast<int>(r), tag, all.comm(),
                            &open_.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Irecv");
      });
    }
    for (std::size_t r = 0; r < to.size(); ++r) {
      in_pieces(sent_[r], [&](std::uint64_t at, int size) {
        all.check(MPI_Isend(to[r].bytes().data() + at, size, MPI_BYTE, static_cast<int>(r), tag, all.comm(),
                            &open_.emplace_back(MPI_REQUEST_NULL)),
                  "MPI_Isend");
      });
    }
    all.wait(open_);
    return from_;
  }

 private:
  static constexpr int tag = reply_tag_min;  // no rank answers on this communicator

  /// Keeps its memory from round to round, because new memory is slow.
  class buffer {
   public:
    [[nodiscard]] std::string_view of(std::uint64_t size) {
      if (size > capacity_) {
        bytes_ = ranks::buffer<char>(size);
        capacity_ = size;
      }
      return {bytes_.data(), size};
    }
    [[nodiscard]] char* data() noexcept { return bytes_.data(); }

   private:
    ranks::buffer<char> bytes_;
    std::uint64_t capacity_ = 0;
  };

  [[nodiscard]] static std::size_t pieces(std::uint64_t size) noexcept {
    return static_cast<std::size_t>((size + message_bytes_max - 1) / message_bytes_max);
  }
  template <typename Each>
  static void in_pieces(std::uint64_t size, Each&& each) {
    for (std::uint64_t at = 0; at < size; at += message_bytes_max) {
      each(at, static_cast<int>(std::min(message_bytes_max, size - at)));
    }
  }

  agreement& agree_;
  std::vector<std::uint64_t> coming_;
  std::vector<std::uint64_t> sent_;
  std::vector<buffer> buffers_;
  std::vector<std::string_view> from_;
  std::vector<MPI_Request> open_;
};

/// This rank's new store.
class writer {
 public:
  writer(store& to, const redistribution& what) : to_(to), values_(what) {}

  void write(const moved& one) {
    if (one.what == logged::kind::tag) return write_tag(one);
    to_.skip_to(one.at);
    switch (one.what) {
      case logged::kind::small:
        to_.insert(one.key, one.value);
        break;
      case logged::kind::large:
        to_.insert(one.key, values_.read(one));
        break;
      default:
        if (to_.remove(one.key)) break;
        batch recorded;  // a batch also records removals of absent keys
        recorded.remove(one.key);
        to_.apply(recorded);
    }
  }

 private:
  void write_tag(const moved& one) {
    to_.skip_to(one.at - 1);
    const version made = to_.tag({.name = one.key, .note = one.value, .time_ns = one.time_ns});
    if (made == one.at - 1) return;
    throw error(
        errc::damaged,
        fmt::format("the tag '{}' of version {} would be on version {}: the records of its file are not in order",
                    one.key, one.at - 1, made));
  }

  store& to_;
  value_reader values_;
};

/// The items that one rank contributes to a round, in order: this rank's own unpacked, those of another rank packed.
class incoming {
 public:
  explicit incoming(std::string_view message) : message_(message) {}
  explicit incoming(std::span<const moved> own) : message_({}), own_(own) {}

  /// Reads the next item; false if there is none.
  [[nodiscard]] bool next() {
    if (!own_.empty()) {
      now_ = own_.front();
      own_ = own_.subspan(1);
      return true;
    }
    if (message_.at_end()) return false;
    now_ = unpack_moved(message_);
    return true;
  }
  [[nodiscard]] const moved& now() const noexcept { return now_; }

 private:
  unpacker message_;
  std::span<const moved> own_;
  moved now_{};
};

/// One rank's part in the rounds.
class sender {
 public:
  sender(const redistribution& what, source& from)
      : what_(what), from_(from), out_(static_cast<std::size_t>(what.ranks)) {}

  /// The version up to which this rank can send in the next round.
  [[nodiscard]] version reach() {
    version least = file_cursor::everything;
    const std::uint64_t share = round_bytes(what_.ranks) / std::max<std::uint64_t>(1, from_.cursors().size());
    for (file_cursor& each : from_.cursors()) least = std::min(least, each.reach(share));
    return least;
  }

  /// Packs the items for other ranks, up to this version, and keeps this rank's own.
  void take(version bound) {
    for (packer& each : out_) each.clear();
    own_.clear();
    for (file_cursor& each : from_.cursors()) each.bound(bound);
    in_order(from_.cursors(), [&](const moved& one) {
      const int owner = one.what == logged::kind::tag ? 0 : what_.opening->ownership.owner_of(one.key, what_.ranks);
      if (owner == what_.rank) {
        own_.push_back(one);
      } else {
        pack(out_[static_cast<std::size_t>(owner)], one);
      }
    });
  }

  /// By receiving rank.
  [[nodiscard]] const std::vector<packer>& out() const noexcept { return out_; }
  [[nodiscard]] std::span<const moved> own() const noexcept { return own_; }

 private:
  const redistribution& what_;
  source& from_;
  std::vector<packer> out_;
  std::vector<moved> own_;
};

/// What the queries of the checkpoint ask, and what it holds, packed. All of its parts have the same ones.
std::string questions_of(const redistribution& what) {
  options reading = what.opening->store;
  reading.access = access::read_only;
  reading.beside_writer = false;
  reading.creation = creation::open_existing;
  reading.placements.clear();
  reading.shared_as.clear();
  const store part(what.files.front(), reading);
  packer out;
  const std::vector<query> queries = part.queries();
  out.number(static_cast<std::uint64_t>(queries.size()));
  for (const query& listed : queries) {
    const std::vector<std::byte> asked = listed.stored();
    out.number(listed.version());
    out.text({reinterpret_cast<const char*>(asked.data()), asked.size()});
  }
  for (const held_version& held : part.held_versions()) {
    out.number(held.version);
    out.text(held.name);
  }
  return out.take();
}

/// They start anew: the rows that were found belong to keys that are on other ranks now. What is held is held anew.
void start_queries(std::string_view questions, const version_ranges& lost, store& to) {
  unpacker in(questions);
  if (in.at_end()) return;
  for (auto left = in.number<std::uint64_t>(); left > 0; --left) {
    const auto at = in.number<version>();
    const std::string_view asked = in.text();
    if (!lost.contains(at)) static_cast<void>(to.start_stored(std::as_bytes(std::span(asked))));
  }
  while (!in.at_end()) {
    const auto at = in.number<version>();
    const std::string_view name = in.text();
    if (!lost.contains(at)) static_cast<void>(to.hold_version(name, at));
  }
}

options of_new_store(const redistribution& what, const source& from) {
  options making = what.opening->store;
  // The kernel clears a small page just before it is written, in the cache; a huge page has left the cache by then
  constexpr std::uint64_t large = 4096;
  making.huge_pages = making.huge_pages && from.bytes() < from.size() * large;
  making.creation = creation::create_new;
  making.durability = durability::none;  // closing makes everything durable
  making.emulate_durability = false;
  return making;
}

}  // namespace

std::string redistribute(const redistribution& what, agreement& agree) {
  std::optional<source> from;
  std::optional<store> to;
  agree.on(step::restore_read, attempt([&] {
             from.emplace(what);
             to.emplace(what.pool, of_new_store(what, *from));
           }));
  exchange give_and_take(agree);
  sender mine(what, *from);
  writer writing(*to, what);
  std::exception_ptr unwritten;  // a failed rank takes part until the next step, where it reports its failure
  for (bool last = false; !last;) {
    const version bound =
        static_cast<version>(agree.on(step::restore_round, unwritten, static_cast<std::int64_t>(mine.reach())).least);
    last = bound == file_cursor::everything;
    const auto unsent = attempt([&] { mine.take(bound); });
    const auto received = give_and_take(mine.out(), unsent);
    unwritten = attempt([&] {
      std::vector<incoming> all;
      all.emplace_back(mine.own());
      for (const std::string_view message : received) all.emplace_back(message);
      in_order(all, [&](const moved& one) { writing.write(one); });
      const auto& report = what.opening->store.on_progress;
      if (report) report({"redistributing records", from->position(), from->size(), "records"});
    });
  }
  const version clock =
      static_cast<version>(agree.on(step::restore_clock, unwritten, static_cast<std::int64_t>(from->clock())).greatest);
  const version_ranges lost = lost_on_any_rank(agree, what.ranks, from->lost_versions());
  const std::vector<version_range> expired = union_of_ranks(agree, step::restore_expired, from->expired_versions());
  std::string questions;
  const auto unread = attempt([&] {
    if (what.rank == 0 && from->has_queries()) questions = questions_of(what);
  });
  const auto size = agree.on(step::restore_asked, unread, static_cast<std::int64_t>(questions.size())).greatest;
  questions.resize(static_cast<std::size_t>(size));
  if (size != 0) agree.broadcast(questions.data(), static_cast<int>(size), 0);
  std::string id;
  agree.on(step::restore_stored, attempt([&] {
             to->skip_to(clock);
             to->lose(lost);
             if (!expired.empty()) to->expire(expired);
             if (what.rank == 0 && !from->kept().keeps_all()) to->set_retention(from->kept());
             start_queries(questions, lost, *to);
             id = to->stats().pool_id;
             to->close();
           }));
  return id;
}

}  // namespace icecore::mpi
