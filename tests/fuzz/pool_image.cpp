// A pool file of any bytes is opened, read, verified, written on and opened again. It is refused with a documented
// error or shows something that agrees with itself.
#include <algorithm>
#include <cstddef>

#include "icecore/icecore.hpp"
#include "pool/format.hpp"
#include "support/fuzz_target.hpp"
#include "support/image.hpp"
#include "support/model.hpp"
#include "support/reading.hpp"
#include "support/reseal.hpp"
#include "support/simulated_pool.hpp"

namespace icecore::testing {
namespace {

/// One image's way through the store.
class execution {
 public:
  execution(const simulated_pool& pool, image file, bool closely)
      : pool_(pool), image_(std::move(file)), closely_(closely) {
    const bool this_file = (image_.flags & image_flag::this_file) != 0;
    const root_changes change{(image_.flags & image_flag::this_boot) != 0,
                              this_file ? std::optional(simulated_pool::inode()) : std::nullopt};
    if ((image_.flags & image_flag::resealed) != 0) {
      reseal(image_.file, change);
    } else if (change.this_boot || change.inode) {
      reseal_roots(image_.file, change);
    }
    for (const std::uint64_t page : {format::root_a_offset, format::root_b_offset}) {
      constexpr std::size_t at = offsetof(format::root, index);
      lasting_ = lasting_ || (page + at < image_.file.size() &&
                              image_.file[page + at] == static_cast<std::byte>(index_kind::persistent));
    }
    pool_.write(image_.file);
  }

  void run() {
    if (closely_) verify_closed();
    read();
    write();
  }

 private:
  [[nodiscard]] options reading() const {
    options opening;
    opening.access = access::read_only;
    opening.accept_copy = (image_.flags & image_flag::accept_copy) != 0;
    opening.huge_pages = false;
    opening.crash = crash_kind::machine;  // where it would be asked
    return opening;
  }
  [[nodiscard]] options writing() const {
    options opening = reading();
    opening.access = access::read_write;
    opening.durability = static_cast<durability>((image_.flags & image_flag::durability) >> 4);
    opening.emulate_durability = true;
    return opening;
  }

  static bool is_refusal(const error& failure) {
    switch (static_cast<errc>(failure.code().value())) {
      case errc::not_a_store:
      case errc::unsupported_format:
      case errc::damaged:
      case errc::truncated:
      case errc::copied:
      case errc::missing_file:  // its root names others
        return true;
      default:
        return false;
    }
  }
  /// Who opens a store at once meets damage of its index, and of records, when they are asked for. Who reads what a
  /// crash has left reads all records, and no index.
  [[nodiscard]] bool is_of_index(const error& failure) const { return lasting_ && failure.code() == errc::damaged; }
  /// Damage of kept queries, and of the page that says which tokens are taken, keeps nobody from reading the rest (Q5).
  static bool is_beside_data(const damage& d) noexcept {
    return d.structure == "query" || (d.structure == "file" && d.offset == format::lineage_offset);
  }
  static void must_be_refusal(const error& failure, const char* what) {
    promise(is_refusal(failure), [&] { return std::string(what) + " fails with: " + failure.message(); });
  }

  void verify_closed() {
    try {
      const verify_report report = verify_file(pool_.path());
      for (const damage& d : report.damages)
        sound_ = sound_ && (is_beside_data(d) || (d.structure == "root" && d.offset < 8192 && d.what != ""));
      spotless_ = report.ok();
    } catch (const error& failure) {
      must_be_refusal(failure, "verify_file()");
      sound_ = spotless_ = false;
    }
  }

  void read() {
    try {
      const store opened(pool_.path(), reading());
      readable_ = true;
      try {
        read_in_all_ways(opened);
        shown_ = records_of(opened);
        clock_shown_ = opened.clock();
      } catch (const error& failure) {
        promise(failure.code() == errc::damaged, [&] { return "reading fails with: " + failure.message(); });
        promise(!sound_ || !closely_, [&] { return "verify_file() finds nothing, but: " + failure.message(); });
      }
      if (!closely_) return must_be_unchanged();
      const verify_report found = opened.verify();
      promise(std::ranges::all_of(found.damages, is_beside_data) == shown_.has_value(), [&] {
        return std::string("verify() of the open store ") + (shown_ ? "finds damage in" : "finds nothing wrong with") +
               " what can" + (shown_ ? "" : "not") + " be read: " + damages_of(found);
      });
      promise(!shown_ || sound_, [] { return std::string("verify_file() finds damage in what can be read"); });
    } catch (const error& failure) {
      must_be_refusal(failure, "opening for reading");
      refusal_ = static_cast<errc>(failure.code().value());
      promise(!spotless_ || !closely_ || refusal_ == errc::copied,
              [&] { return "verify_file() finds nothing, but: " + failure.message(); });
    }
    must_be_unchanged();
  }

  void must_be_unchanged() const {
    const std::string_view before(reinterpret_cast<const char*>(image_.file.data()), image_.file.size());
    promise(pool_.text() == before, [] { return std::string("reading has changed the file"); });
  }

  /// Its dump without the first line and the last, which tell of the clock.
  static std::string records_of(const store& opened) {
    const std::string dump = dump_of(opened);
    const std::size_t first = dump.find('\n') + 1;
    return dump.substr(first, dump.rfind('\n', dump.size() - 2) + 1 - first);
  }

  static std::string damages_of(const verify_report& report) {
    if (report.damages.empty()) return "nothing";
    std::string all;
    for (const damage& d : report.damages) all += d.structure + ": " + d.what + "; ";
    return all;
  }

  void write() {
    try {
      store opened(pool_.path(), writing());
      if (shown_) {
        // opened at once after a crash, it closes the version that the crash left open
        const bool later = opened.stats().recovered_instantly && opened.clock() == clock_shown_ + 1;
        promise(records_of(opened) == *shown_ && (opened.clock() == clock_shown_ || later),
                [] { return std::string("a store opened for writing shows something else than for reading"); });
      }
      promise(readable_ || refusal_ == errc::not_a_store || lasting_,
              [] { return std::string("what cannot be read can be written"); });
      const bool sealed = (image_.flags & image_flag::resealed) != 0;
      const auto stats = opened.stats();
      unmet_ = stats.recovered_instantly && (stats.recovered_from_crash || sealed);
      write_on(opened);
    } catch (const error& failure) {
      const bool later_format = failure.code() == errc::unsupported_format;
      must_be_refusal(failure, "opening for writing");
      promise(!readable_ || later_format || is_of_index(failure),
              [&] { return "it can be read, but not written: " + failure.message(); });
      return;
    }
    if (!closely_ || (lasting_ && !shown_)) return;
    const store again(pool_.path(), reading());
    try {
      for (const auto& [key, value] : written_) {
        promise(again.find(key) == value, [&] { return "what was written is lost: " + show(key); });
      }
      if (!shown_ && readable_) return;
      read_in_all_ways(again);
      const verify_report found = again.verify();
      promise(std::ranges::all_of(found.damages, is_beside_data),
              [&] { return "after writing: " + damages_of(found); });
    } catch (const error& failure) {
      if (!unmet_ || !is_of_index(failure)) throw;
      promise(!again.verify().ok(), [&] { return "verify() finds nothing, but: " + failure.message(); });
    }
  }

  void write_on(store& opened) {
    try {
      const auto keys = opened.keys();
      const std::string old = keys.empty() ? "" : std::string(keys[keys.size() / 2]);
      opened.insert(old, "written on");
      opened.insert("a new key", "written on");
      const version closed = opened.tag();
      promise(opened.find(old, closed) == "written on", [] { return std::string("what was tagged is not there"); });
      batch together;
      together.remove(old);
      together.insert("another", std::string(5000, 'n'));
      opened.apply(together);
      if ((image_.flags & image_flag::synced_first) != 0) opened.sync();
      written_ = {{old, std::nullopt}, {"a new key", "written on"}, {"another", std::string(5000, 'n')}};
      for (const auto& [key, value] : written_) {
        promise(opened.find(key) == value, [&] { return "what was written is not there: " + show(key); });
      }
      opened.close();
    } catch (const error& failure) {
      // a changed root may say that next to no version is left, and then none may be tagged
      constexpr version scarce = version_max - (version{1} << 22);
      if (failure.code() == errc::invalid_argument && opened.clock() > scarce) {
        written_.clear();
        return;
      }
      if (is_of_index(failure)) {
        written_.clear();
        shown_.reset();
        return;
      }
      throw broken_promise("writing fails with: " + failure.message());
    }
  }

  const simulated_pool& pool_;
  image image_;
  bool lasting_ = false;  // its index lies in the file
  bool unmet_ = false;    // there may be damage of its index that neither the reader nor the writer has met
  bool closely_;          // verified before and after, and opened again in the end
  bool sound_ = true;     // but for a root page that is not needed, and kept queries
  bool spotless_ = true;  // but for nothing
  bool readable_ = false;
  errc refusal_{};
  std::optional<std::string> shown_;
  version clock_shown_ = 0;
  std::map<std::string, std::optional<std::string>> written_;
};

}  // namespace
}  // namespace icecore::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace icecore::testing;
  static const simulated_pool pool(0);
  const bool closely = look_closely_at(data, size);
  must_hold([&] { execution(pool, expand({data, size}), closely).run(); });
  return 0;
}
