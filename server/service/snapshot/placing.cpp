#include "service/snapshot/placing.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "icecore/error.hpp"
#include "icecore/record_log.hpp"
#include "icecore/store.hpp"
#include "service/names.hpp"
#include "service/read/hidden_keys.hpp"
#include "service/snapshot/files.hpp"
#include "service/snapshot/numbering.hpp"

namespace icecore::service {
namespace {

using std::filesystem::path;

// One old store, and how far it is read.
class part {
 public:
  part(std::size_t number, const path& file) : number_(number), file_(file), log_(file), bytes_(file, O_RDONLY) {}

  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  [[nodiscard]] const icecore::record_log& log() const noexcept { return log_; }
  [[nodiscard]] std::vector<placed_tag> tags() const {
    std::vector<placed_tag> all;
    for (std::size_t i = 0; i < log_.size(); ++i) {
      const icecore::logged one = log_.at(i);
      if (one.what != icecore::logged::kind::tag) continue;
      all.push_back({std::string(one.key), std::string(one.value), one.time_ns, one.at - 1});
    }
    return all;
  }

  [[nodiscard]] bool next(const numbering& by) {
    if (position_ == log_.size()) return false;
    log_.prefetch(position_ + 8);
    now_ = log_.at(position_++);
    const bool tag = now_.what == icecore::logged::kind::tag;
    now_.at = tag ? by.of(number_, now_.at - 1) + 1 : by.of(number_, now_.at);
    return true;
  }
  /// With the new version.
  [[nodiscard]] const icecore::logged& now() const noexcept { return now_; }

  /// The value of now(); valid until the next call.
  [[nodiscard]] std::string_view value() {
    if (now_.what != icecore::logged::kind::large) return now_.value;
    room_.resize(now_.value_size);
    std::size_t got = 0;
    while (got < room_.size()) {
      const ssize_t count =
          ::pread(bytes_.number(), room_.data() + got, room_.size() - got, static_cast<off_t>(now_.value_offset + got));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) failed_call(file_, "read", errno);
      if (count == 0) {
        throw icecore::error(errc::truncated, fmt::format("{}: the file ends at byte {}, in the middle of a value",
                                                          file_.native(), now_.value_offset + got));
      }
      got += static_cast<std::size_t>(count);
    }
    return room_;
  }

 private:
  std::size_t number_;
  path file_;
  icecore::record_log log_;
  open_file bytes_;
  std::size_t position_ = 0;
  icecore::logged now_{};
  std::string room_;
};

// Calls `use` with the parts in the order of what they are at: of one version, tags come first.
template <typename Use>
void in_order(std::deque<part>& all, const numbering& by, Use use) {
  const auto later = [](const part* a, const part* b) { return b->now().order() < a->now().order(); };
  std::vector<part*> heap;
  for (part& each : all) {
    if (each.next(by)) heap.push_back(&each);
  }
  std::ranges::make_heap(heap, later);
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, later);
    part& first = *heap.back();
    use(first);
    if (first.next(by)) {
      std::ranges::push_heap(heap, later);
    } else {
      heap.pop_back();
    }
  }
}

class placer {
 public:
  explicit placer(const placing& what) : what_(&what), to_(what.to, options_of(what)) {}

  void take(part& from, const numbering& by, placed& done) {
    const icecore::logged& one = from.now();
    if (one.what == icecore::logged::kind::tag) return take_tag(from, by);
    if (one.key == compacted_key) {
      if (const auto oldest = number_of_bytes(one.value)) {
        compacted_ = std::max(compacted_.value_or(0), by.of(from.number(), *oldest));
      }
      return;
    }
    const bool leased = one.key.starts_with(leased_prefix);
    if (leased || one.key.starts_with(lease_prefix)) {
      done.leases_left_out = done.leases_left_out || !what_->leases;
      if (!what_->leases) return;
    }
    // Every server knows every lease; which keys one holds is known where the keys are.
    const std::string_view owned = leased ? one.key.substr(leased_prefix.size()) : one.key;
    if (what_->owns && !one.key.starts_with(lease_prefix) && !what_->owns(owned)) return;
    ++done.records;
    to_.skip_to(one.at);
    if (one.what != icecore::logged::kind::removal) {
      to_.insert(one.key, from.value());
    } else if (!to_.remove(one.key)) {
      icecore::batch recorded;  // a batch records removals of absent keys, too
      recorded.remove(one.key);
      to_.apply(recorded);
    }
  }

  void end(icecore::version clock, const icecore::version_ranges& lost) {
    to_.skip_to(clock);
    to_.lose(lost);
    if (compacted_) to_.insert(compacted_key, bytes_of_number(*compacted_));
    to_.close();
  }

 private:
  static icecore::options options_of(const placing& what) {
    icecore::options making;
    making.index = what.index;
    making.creation = icecore::creation::create_new;
    making.durability = icecore::durability::none;  // closing makes everything durable
    return making;
  }

  void take_tag(const part& from, const numbering& by) {
    const icecore::logged& one = from.now();
    if (what_->each_counts && (from.number() != 0 || !by.keeps(one.key))) return;  // the first one's, for all
    to_.skip_to(one.at - 1);
    const icecore::version made = to_.tag({.name = one.key, .note = one.value, .time_ns = one.time_ns});
    if (made == one.at - 1) return;
    throw icecore::error(errc::damaged,
                         fmt::format("the tag '{}' of version {} would be on version {}: the records of its file are "
                                     "not in order",
                                     one.key, one.at - 1, made));
  }

  const placing* what_;
  icecore::store to_;
  std::optional<icecore::version> compacted_;
};

}  // namespace

placed place_records(const placing& asked) {
  placing what = asked;
  what.each_counts = asked.each_counts && asked.parts.size() > 1;
  std::deque<part> parts;
  std::uint64_t total = 0;
  for (const path& file : what.parts) {
    total += parts.emplace_back(parts.size(), file).log().size();
  }
  std::vector<std::vector<placed_tag>> tags(parts.size());
  if (what.each_counts) {
    for (part& each : parts) tags[each.number()] = each.tags();
  }
  const numbering by(tags);
  placed done{.tags_left_out = by.left_out(), .renumbered = !by.changes_nothing()};
  placer placing_them(what);
  std::uint64_t read = 0;
  in_order(parts, by, [&](part& from) {
    placing_them.take(from, by, done);
    if (what.on_progress && ++read % 65536 == 0) {
      what.on_progress({.what = "placing records", .done = read, .total = total, .unit = "records"});
    }
  });
  icecore::version clock = 0;
  icecore::version_ranges lost;
  for (const part& each : parts) {
    clock = std::max(clock, by.of(each.number(), each.log().clock() - 1) + 1);
    lost.add(by.of(each.number(), each.log().lost_versions()));
  }
  placing_them.end(clock, lost);
  return done;
}

}  // namespace icecore::service
