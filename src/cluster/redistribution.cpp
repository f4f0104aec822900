#include "cluster/redistribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/messenger.hpp"
#include "cluster/wire.hpp"

namespace icecore::mpi {
namespace {

/// What a rank sends in a round, at most, unless one record is larger: all of it may go to one rank, from each of them.
std::uint64_t round_bytes(int ranks) {
  constexpr std::uint64_t at_most = std::uint64_t{16} << 20;
  constexpr std::uint64_t at_least = std::uint64_t{1} << 20;
  constexpr std::uint64_t received = std::uint64_t{256} << 20;
  return std::clamp(received / static_cast<std::uint64_t>(ranks), at_least, at_most);
}
/// MPI counts bytes in an int.
constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 30;

/// A record, or a tag, on its way. Views are into the pool that it comes from or into a message.
struct moved {
  version at;  // of a tag: the version after its own (R3)
  bool is_tag;
  std::int64_t time_ns;                   // of a tag
  std::string_view key;                   // of a tag: its name
  std::optional<std::string_view> value;  // empty: a removal; of a tag: its note

  /// R3: a tag before the records of the version it travels with.
  [[nodiscard]] std::pair<version, bool> order() const noexcept { return {at, !is_tag}; }
  [[nodiscard]] std::uint64_t bytes() const noexcept {
    constexpr std::uint64_t numbers = 32;
    return numbers + key.size() + (value ? value->size() : 0);
  }
};

void pack(packer& out, const moved& one) {
  out.number(one.at);
  out.number(static_cast<std::uint8_t>(one.is_tag));
  out.number(one.time_ns);
  out.text(one.key);
  out.optional_text(one.value);
}

moved unpack_moved(unpacker& in) {
  moved one{};
  one.at = in.number<version>();
  one.is_tag = in.number<std::uint8_t>() != 0;
  one.time_ns = in.number<std::int64_t>();
  one.key = in.text();
  one.value = in.optional_text();
  return one;
}

/// The records of this rank's files of the checkpoint, in the order in which they travel.
class source {
 public:
  explicit source(const redistribution& what) {
    options reading;
    reading.access = access::read_only;
    reading.creation = creation::open_existing;
    reading.on_progress = what.opening->store.on_progress;
    for (int file = what.rank; file < what.from.ranks; file += what.ranks) {
      const store& from = stores_.emplace_back(checkpoint_part(what.folder, what.from.id, file), reading);
      if (from.stats().pool_id != what.from.pools[static_cast<std::size_t>(file)]) {
        throw error(errc::other_cluster,
                    fmt::format("{}: is pool {}, but the checkpoint has {} there", from.path().native(),
                                from.stats().pool_id, what.from.pools[static_cast<std::size_t>(file)]));
      }
      take(from);
    }
    std::ranges::stable_sort(all_, {}, &moved::order);
  }

  [[nodiscard]] const std::vector<moved>& records() const noexcept { return all_; }
  [[nodiscard]] version clock() const noexcept { return clock_; }

 private:
  void take(const store& from) {
    clock_ = std::max(clock_, from.clock());
    for (const tag_info& tag : tags_.emplace_back(from.tags())) {
      all_.push_back({tag.version + 1, true, tag.time_ns, tag.name, tag.note});
    }
    for (const std::string_view key : from.keys()) {
      for (const change& one : from.history(key).oldest_first()) {
        all_.push_back({one.version, false, 0, key, one.value});
      }
    }
  }

  std::deque<store> stores_;
  std::deque<std::vector<tag_info>> tags_;
  std::vector<moved> all_;
  version clock_ = 0;
};

/// Every rank gives each other rank some bytes.
class exchange {
 public:
  exchange(MPI_Comm comm, int ranks, agreement& agree)
      : comm_(comm), agree_(agree), coming_(static_cast<std::size_t>(ranks)), sent_(coming_) {}

  /// By rank: what it sent to this one. Throws on all ranks if one has no memory for it, or comes with a failure.
  [[nodiscard]] std::vector<std::string> operator()(const std::vector<std::string>& to,
                                                    const std::exception_ptr& failure) {
    for (std::size_t r = 0; r < sent_.size(); ++r) sent_[r] = to[r].size();
    check(MPI_Alltoall(sent_.data(), 1, MPI_UINT64_T, coming_.data(), 1, MPI_UINT64_T, comm_), "MPI_Alltoall");
    std::vector<std::string> from;
    std::vector<MPI_Request> open;
    const auto unready = attempt([&] {
      from.resize(coming_.size());
      std::size_t messages = 0;
      for (std::size_t r = 0; r < coming_.size(); ++r) {
        from[r].resize(coming_[r]);
        messages += pieces(coming_[r]) + pieces(sent_[r]);
      }
      open.reserve(messages);
    });
    agree_.on(step::restore_ready, failure ? failure : unready);  // from here on nothing fails but MPI
    for (std::size_t r = 0; r < from.size(); ++r) {
      in_pieces(coming_[r], [&](std::uint64_t at, int size) {
        check(MPI_Irecv(from[r].data() + at, size, MPI_BYTE, static_cast<int>(r), tag, comm_, &open.emplace_back()),
              "MPI_Irecv");
      });
    }
    for (std::size_t r = 0; r < to.size(); ++r) {
      in_pieces(sent_[r], [&](std::uint64_t at, int size) {
        check(MPI_Isend(to[r].data() + at, size, MPI_BYTE, static_cast<int>(r), tag, comm_, &open.emplace_back()),
              "MPI_Isend");
      });
    }
    check(MPI_Waitall(static_cast<int>(open.size()), open.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    return from;
  }

 private:
  static constexpr int tag = 2;  // 1 is that of requests

  [[nodiscard]] static std::size_t pieces(std::uint64_t size) noexcept {
    return static_cast<std::size_t>((size + piece_bytes - 1) / piece_bytes);
  }
  template <typename Each>
  static void in_pieces(std::uint64_t size, Each&& each) {
    for (std::uint64_t at = 0; at < size; at += piece_bytes) {
      each(at, static_cast<int>(std::min(piece_bytes, size - at)));
    }
  }

  MPI_Comm comm_;
  agreement& agree_;
  std::vector<std::uint64_t> coming_;
  std::vector<std::uint64_t> sent_;
};

void write(store& to, const moved& one) {
  if (one.is_tag) {
    to.skip_to(one.at - 1);
    const version made = to.tag({.name = one.key, .note = one.value.value_or(""), .time_ns = one.time_ns});
    if (made == one.at - 1) return;
    throw error(errc::damaged, fmt::format("the tag '{}' of version {} came to version {}: records of its file are out "
                                           "of order",
                                           one.key, one.at - 1, made));
  }
  to.skip_to(one.at);
  if (one.value) {
    to.insert(one.key, *one.value);
  } else if (!to.remove(one.key)) {
    batch recorded;  // batches have recorded removals of what was not there, too
    recorded.remove(one.key);
    to.apply(recorded);
  }
}

void write_all(store& to, const std::vector<std::string>& received) {
  std::vector<moved> all;
  for (const std::string& bytes : received) {
    for (unpacker in(bytes); !in.at_end();) all.push_back(unpack_moved(in));
  }
  // stable: R2
  std::ranges::stable_sort(all, {}, &moved::order);
  for (const moved& one : all) write(to, one);
}

/// One rank's part in the rounds.
class sender {
 public:
  sender(const redistribution& what, const source& from) : what_(what), from_(from) {}

  /// The version up to which this rank can send in the next round.
  [[nodiscard]] version reach() {
    const auto& all = from_.records();
    std::uint64_t bytes = 0;
    for (stop_ = position_; stop_ < all.size(); ++stop_) {
      bytes += all[stop_].bytes();
      if (stop_ > position_ && bytes > round_bytes(what_.ranks)) break;
    }
    return stop_ == all.size() ? everything : all[stop_ - 1].at;
  }

  /// By rank: what goes to it, up to this version.
  [[nodiscard]] std::vector<std::string> next(version bound) {
    std::vector<packer> out(static_cast<std::size_t>(what_.ranks));
    const auto& all = from_.records();
    for (; position_ < stop_ && all[position_].at <= bound; ++position_) {
      const moved& one = all[position_];
      const int owner = one.is_tag ? 0 : what_.opening->ownership.owner_of(one.key, what_.ranks);
      pack(out[static_cast<std::size_t>(owner)], one);
    }
    std::vector<std::string> bytes;
    for (packer& each : out) bytes.push_back(each.take());
    return bytes;
  }

  [[nodiscard]] std::uint64_t sent() const noexcept { return position_; }

  static constexpr version everything = version_max + 1;

 private:
  const redistribution& what_;
  const source& from_;
  std::size_t position_ = 0;
  std::size_t stop_ = 0;
};

options of_new_store(const redistribution& what) {
  options making = what.opening->store;
  making.creation = creation::create_new;
  making.durability = durability::none;  // closing makes all of it durable
  making.emulate_durability = false;
  return making;
}

}  // namespace

std::string redistribute(const redistribution& what, agreement& agree) {
  std::optional<source> from;
  std::optional<store> to;
  agree.on(step::restore_read, attempt([&] {
             from.emplace(what);
             to.emplace(what.pool, of_new_store(what));
           }));
  exchange give_and_take(what.comm, what.ranks, agree);
  sender mine(what, *from);
  const std::vector<std::string> nothing(static_cast<std::size_t>(what.ranks));
  std::exception_ptr unwritten;  // a rank tells at the next step, and takes part until then
  for (bool last = false; !last;) {
    const version bound =
        static_cast<version>(agree.on(step::restore_round, unwritten, static_cast<std::int64_t>(mine.reach())).least);
    last = bound == sender::everything;
    std::vector<std::string> out;
    const auto unsent = attempt([&] { out = mine.next(bound); });
    const std::vector<std::string> received = give_and_take(unsent ? nothing : out, unsent);
    unwritten = attempt([&] {
      write_all(*to, received);
      const auto& tell = what.opening->store.on_progress;
      if (tell) tell({"redistributing records", mine.sent(), from->records().size(), "records"});
    });
  }
  const version clock =
      static_cast<version>(agree.on(step::restore_clock, unwritten, static_cast<std::int64_t>(from->clock())).greatest);
  std::string id;
  agree.on(step::restore_stored, attempt([&] {
             to->skip_to(clock);
             id = to->stats().pool_id;
             to->close();
           }));
  return id;
}

}  // namespace icecore::mpi
