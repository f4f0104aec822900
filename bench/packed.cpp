// Packed histories beside a store that was just written, and beside LMDB: icecore_packed [N]
//
// The paper's work: N random keys of 8 bytes with values of 8 bytes are inserted (N by default 1,000,000), all of them
// removed in shuffled order and N others inserted, with a tag after every operation; icecore (B+-tree, durability none)
// and LMDB (transactions of 1,000) in /dev/shm. The same records are packed in memory, and by compact() in a store that
// is opened again. Then each answers the same questions, in turns, 5 times, with one and with two threads; each answer
// is checked. Prints medians, in operations a second, and how many times as fast the packed histories are, with the
// least and the greatest ratio.
#include <fmt/format.h>
#include <sys/mman.h>

#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>

#include "measure.hpp"
#include "stores/icecore_session.hpp"
#include "stores/kinds.hpp"
#include "stratum/extent.hpp"
#include "stratum/extent_builder.hpp"
#include "suites/phases.hpp"

namespace {

using namespace icecore;
using namespace icecore::bench;
namespace packing = icecore::stratum;
using bench::version;

constexpr int repetitions = 5;
constexpr std::size_t huge_page = std::size_t{2} << 20;

/// Records as the work writes them: by place in the order of keys.
struct written_work {
  explicit written_work(std::uint64_t count) : n(count), keys(random_keys(0, 2 * count)), order(sorted_order(keys)) {
    inserted.resize(2 * count);
    removed.resize(count);
  }
  void write_to(bench::store& s) {
    const std::vector<std::uint32_t> removals = shuffled(n, 3);
    const auto own = s.new_session();
    const auto insert = [&](std::uint64_t i) {
      inserted[i] = own->insert(keys[i], {reinterpret_cast<const char*>(&i), sizeof i});
      own->tag();
    };
    for (std::uint64_t i = 0; i < n; ++i) insert(i);
    for (const std::uint32_t i : removals) {
      removed[i] = own->remove(keys[i]);
      own->tag();
    }
    for (std::uint64_t i = n; i < 2 * n; ++i) insert(i);
    own->commit();
    end = s.clock();
  }
  [[nodiscard]] std::uint64_t expected(std::uint64_t i, version at) const {
    return inserted[i] > at || (i < n && removed[i] <= at) ? missing : i;
  }

  std::uint64_t n;
  key_list keys;
  std::vector<std::uint32_t> order;
  std::vector<version> inserted, removed;
  version end = 0;
};

/// The records of the work, packed; answers as a store does.
class packed_store final : public bench::store {
 public:
  packed_store(const written_work& work, std::uint64_t block_bytes) : size_(work.keys.size() * 64 + huge_page) {
    void* const at = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("no memory");
    memory_ = static_cast<std::byte*>(at);
    (void)madvise(at, size_, MADV_HUGEPAGE);
    packing::extent_builder b({memory_, size_}, 1, block_bytes);
    for (const std::uint32_t i : work.order) {
      const std::uint64_t value = i;
      if (i < work.n) expect(b.add(work.keys[i], {work.removed[i], format::packed_kind::removal, {}}), "room");
      expect(
          b.add(work.keys[i],
                {work.inserted[i], format::packed_kind::value, {reinterpret_cast<const char*>(&value), sizeof value}}),
          "room");
    }
    bytes_ = b.finish();
    extent_ = std::make_unique<packing::extent>(std::span<const std::byte>(memory_, bytes_),
                                                packing::extent_place{.file = "memory", .offset = 0, .seed = 1});
    clock_ = work.end;
  }
  ~packed_store() override { munmap(memory_, size_); }

  std::unique_ptr<bench::session> new_session() override { return std::make_unique<reading>(*extent_); }
  [[nodiscard]] version clock() const override { return clock_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  class reading final : public bench::session {
   public:
    explicit reading(const packing::extent& e) : e_(e) {}
    version insert(std::string_view, std::string_view) override { throw std::logic_error("packed: no insert"); }
    version remove(std::string_view) override { throw std::logic_error("packed: no remove"); }
    void tag() override { throw std::logic_error("packed: no tag"); }
    std::optional<std::string_view> find(std::string_view key, version at) override {
      const auto r = e_.find(key, at);
      return r && !r->is_removal() ? std::optional(r->value) : std::nullopt;
    }
    void find_many(std::span<const std::string_view> keys, std::span<const version> at,
                   std::span<std::optional<std::uint64_t>> out) override {
      found_.resize(keys.size());
      e_.find_many(keys, at, found_);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        out[i] = found_[i] && !found_[i]->is_removal() ? std::optional(number_of(found_[i]->value)) : std::nullopt;
      }
    }
    void history(std::string_view key, std::vector<recorded_change>& out) override {
      e_.for_each_of(key, version_max, [&](const packing::packed_record& r) {
        out.push_back({r.stamped, r.is_removal() ? std::nullopt : std::optional(number_of(r.value))});
        return true;
      });
    }
    void extract(version at, pair_columns& out, unsigned) override {
      e_.for_each_at(at, "", [&](std::string_view key, const packing::packed_record& r) {
        if (!r.is_removal()) out.add(key, r.value);
        return true;
      });
    }

   private:
    const packing::extent& e_;
    std::vector<std::optional<packing::packed_record>> found_;
  };

  std::size_t size_;
  std::byte* memory_;
  std::uint64_t bytes_;
  std::unique_ptr<packing::extent> extent_;
  version clock_;
};

/// A store with the work, compacted and opened again.
class compacted_store final : public bench::store {
 public:
  explicit compacted_store(written_work& work, const std::filesystem::path& path) {
    {
      writing_store written(path);
      work.write_to(written);
    }
    const auto begin = std::chrono::steady_clock::now();
    const compaction_report done = compact(path, none());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    store_.emplace(path, none());
    const statistics now = store_->stats();
    fmt::print(
        "compacted {} records of {} keys in {:.3f} s: {:.1f} bytes a key in extents, {:.1f} of {:.1f} of the file; "
        "index and lookup cache {} KiB; opened in {:.2f} ms\n",
        done.records, done.keys, taken.count(), static_cast<double>(now.packed_bytes) / static_cast<double>(done.keys),
        static_cast<double>(done.bytes_after) / static_cast<double>(done.keys),
        static_cast<double>(done.bytes_before) / static_cast<double>(done.keys), now.index_bytes / 1024,
        1e3 * now.recovery_seconds);
  }
  std::unique_ptr<bench::session> new_session() override { return std::make_unique<icecore_session>(*store_); }
  [[nodiscard]] version clock() const override { return store_->clock(); }

 private:
  [[nodiscard]] static options none() {
    options how;
    how.durability = durability::none;
    return how;
  }
  class writing_store final : public bench::store {
   public:
    explicit writing_store(const std::filesystem::path& path) : store_(path, none()) {}
    std::unique_ptr<bench::session> new_session() override { return std::make_unique<icecore_session>(store_); }
    [[nodiscard]] version clock() const override { return store_.clock(); }

   private:
    icecore::store store_;
  };

  std::optional<icecore::store> store_;
};

struct subject {
  std::string name;
  bench::store* store;
};

class measurements {
 public:
  void add(const std::string& what, const std::string& who, double rate) { rates_[what][who].push_back(rate); }
  void print(const std::string& first) const {
    fmt::print("{:24}{:>20}{:>14}{:>32}\n", "", "", "a second", first + " is times as fast");
    for (const auto& [what, by] : rates_) {
      for (const auto& [who, rates] : by) {
        std::vector<double> ratios;
        for (std::size_t i = 0; i < rates.size(); ++i) ratios.push_back(by.at(first)[i] / rates[i]);
        fmt::print("{:24}{:>20}{:14.4g}{:>20.2f} ({:.2f} to {:.2f})\n", what, who, bench::median(rates),
                   bench::median(ratios), *std::ranges::min_element(ratios), *std::ranges::max_element(ratios));
      }
    }
  }

 private:
  std::map<std::string, std::map<std::string, std::vector<double>>> rates_;
};

questions asked_of(const written_work& work, std::uint64_t seed) {
  questions q{.keys = key_list(8, work.n), .at = {}, .expected = {}};
  random_numbers random(seed);
  for (std::uint64_t j = 0; j < work.n; ++j) {
    const std::uint64_t i = random.below(2 * work.n);
    const version at = 1 + random.below(work.end - 1);
    std::ranges::copy(work.keys[i], q.keys.at(j));
    q.at.push_back(at);
    q.expected.push_back(work.expected(i, at));
  }
  return q;
}

void measure(const written_work& work, const std::vector<subject>& all, unsigned threads, int round,
             measurements& out) {
  const auto named = [&](const char* what) { return fmt::format("{}, T = {}", what, threads); };
  const auto n = static_cast<double>(work.n);
  for (std::size_t turn = 0; turn < all.size(); ++turn) {
    const subject& s = all[(turn + static_cast<std::size_t>(round)) % all.size()];
    const questions q = asked_of(work, 100 + static_cast<std::uint64_t>(round));
    out.add(named("find"), s.name, n / find_all(*s.store, threads, q));
    out.add(named("find_many"), s.name, n / find_many_all(*s.store, threads, q));
    std::vector<std::vector<recorded_change>> histories;
    key_list keys(8, work.n);
    random_numbers chosen(50 + static_cast<std::uint64_t>(round));
    for (std::uint64_t j = 0; j < work.n; ++j) {
      const std::uint64_t i = chosen.below(2 * work.n);
      histories.push_back({});
      if (i < work.n) histories.back().push_back({work.removed[i], std::nullopt});
      histories.back().push_back({work.inserted[i], i});
      std::ranges::copy(work.keys[i], keys.at(j));
    }
    out.add(named("history"), s.name,
            n / history_all(*s.store, threads, keys,
                            [&](std::size_t j) -> std::span<const recorded_change> { return histories[j]; }));
    std::vector<version> at;
    random_numbers random(7 + static_cast<std::uint64_t>(round));
    for (unsigned t = 0; t < threads; ++t) at.push_back(1 + random.below(work.end - 1));
    const double seconds = snapshot_in_each(*s.store, at, work.n, 8, [&](unsigned thread, const pair_columns& pairs) {
      std::uint64_t count = 0;
      for (const std::uint32_t i : work.order) {
        if (work.expected(i, at[thread]) == missing) continue;
        expect(pairs.key(count) == work.keys[i] && number_of(pairs.value(count)) == i, "snapshot");
        ++count;
      }
      expect(count == pairs.count(), "snapshot");
    });
    out.add(named("snapshot"), s.name, threads / seconds);
  }
}

}  // namespace

int main(int count, char** arguments) try {
  const std::uint64_t n = count > 1 ? std::stoull(arguments[1]) : 1'000'000;
  const std::uint64_t block_bytes = count > 2 ? std::stoull(arguments[2]) : packing::block_bytes_usual;
  const std::filesystem::path folder = std::filesystem::path("/dev/shm") / fmt::format("icecore-packed-{}", getpid());
  written_work work(n);
  std::vector<std::unique_ptr<bench::store>> open;
  std::vector<subject> all;
  for (const char* name : {"icecore-none", "LMDB-batch"}) {
    const store_kind* kind = kind_of_name(name);
    if (kind == nullptr) continue;
    std::filesystem::create_directories(folder / name);
    open.push_back(kind->open({.folder = folder / name, .threads = 2, .records = 3 * n, .keys = 2 * n}));
    work.write_to(*open.back());
    all.push_back({name, open.back().get()});
  }
  const auto begin = std::chrono::steady_clock::now();
  auto packed = std::make_unique<packed_store>(work, block_bytes);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("packed {} records of {} keys in {:.3f} s: {:.1f} bytes a key, {:.0f} MB/s\n", 3 * n, 2 * n, seconds,
             static_cast<double>(packed->bytes()) / static_cast<double>(2 * n),
             static_cast<double>(packed->bytes()) / seconds / 1e6);
  all.push_back({"packed", packed.get()});
  auto compacted = std::make_unique<compacted_store>(work, folder / "compacted.ice");
  all.push_back({"compacted", compacted.get()});
  measurements out;
  for (int round = 0; round < repetitions; ++round) {
    for (const unsigned threads : {1U, 2U}) measure(work, all, threads, round, out);
  }
  out.print("packed");
  out.print("compacted");
  open.clear();
  compacted.reset();
  std::filesystem::remove_all(folder);
} catch (const std::exception& failed) {
  fmt::print(stderr, "icecore_packed: {}\n", failed.what());
  return 1;
}
