// Packed histories beside a store that was just written, beside LMDB and maps in memory: icecore_packed [N] [--help]
//
// The paper's work: N random keys of 8 bytes with values of 8 bytes are inserted (N by default 1,000,000), all of them
// removed in shuffled order and N others inserted, with a tag after every operation; icecore (B+-tree, durability none)
// and LMDB (transactions of 1,000) in /dev/shm. The same records are packed in memory, and by compact() in a store that
// is opened again. And deep histories: --deep-keys keys, each written --depth times in turns, compacted, beside the
// same and the maps. Then each answers the same questions, in turns, 5 times, with one and with two threads; each
// answer is checked. Prints medians, in operations a second, and how many times as fast the packed histories are, with
// the least and the greatest ratio. --json FILE writes them in the form of icecore_bench (bench/README.md), as the
// suite `packed`.
#include <fmt/format.h>
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>

#include "measure.hpp"
#include "report.hpp"
#include "stores/icecore_session.hpp"
#include "stores/kinds.hpp"
#include "stratum/extent.hpp"
#include "stratum/extent_builder.hpp"
#include "stratum/strata.hpp"
#include "suites/phases.hpp"

namespace {

using namespace icecore;
using namespace icecore::bench;
namespace packing = icecore::stratum;
using bench::version;

struct chosen {
  std::uint64_t n = 1'000'000;
  std::uint64_t deep_keys = 1000;
  std::uint64_t depth = 1000;
  std::uint64_t block_bytes = packing::block_bytes_usual;
  int repetitions = 5;
  std::filesystem::path json;
};

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

/// Keys that are written anew in turns, with a tag after each write: each key has a long history.
struct deep_work {
  explicit deep_work(const chosen& how)
      : depth(how.depth), keys(random_keys(0, how.deep_keys)), histories(keys.size()) {}
  void write_to(bench::store& s) {
    for (auto& each : histories) each.clear();
    const auto own = s.new_session();
    for (std::uint64_t round = 0; round < depth; ++round) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const version v = own->insert(keys[i], {reinterpret_cast<const char*>(&round), sizeof round});
        own->tag();
        histories[i].push_back({v, round});
      }
    }
    own->commit();
    for (auto& each : histories) std::ranges::reverse(each);
  }

  std::uint64_t depth;
  key_list keys;
  std::vector<std::vector<recorded_change>> histories;  ///< newest first
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
    std::vector<packing::packed_extent> only;
    only.push_back({.stratum = 0,
                    .bytes = std::make_unique<const packing::extent>(
                        std::span<const std::byte>(memory_, bytes_),
                        packing::extent_place{.file = "memory", .offset = 0, .seed = 1})});
    strata_ = std::make_unique<packing::strata>(std::move(only));
    clock_ = work.end;
  }
  ~packed_store() override { munmap(memory_, size_); }

  std::unique_ptr<bench::session> new_session() override { return std::make_unique<reading>(*strata_); }
  [[nodiscard]] version clock() const override { return clock_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  class reading final : public bench::session {
   public:
    explicit reading(const packing::strata& all) : all_(all), e_(all.extent_at(0)) {}
    version insert(std::string_view, std::string_view) override { throw std::logic_error("packed: no insert"); }
    version remove(std::string_view) override { throw std::logic_error("packed: no remove"); }
    void tag() override { throw std::logic_error("packed: no tag"); }
    std::optional<std::string_view> find(std::string_view key, version at) override {
      const auto r = e_.find(key, at);
      return r && !r->is_removal() ? std::optional(r->value) : std::nullopt;
    }
    void find_many(std::span<const std::string_view> keys, std::span<const version> at,
                   std::span<std::optional<std::uint64_t>> out) override {
      all_.find_many(
          keys, at.data(), 1, [](std::size_t) { return true; },
          [&](std::size_t i, const std::optional<packing::packed_record>& r) {
            out[i] = r && !r->is_removal() ? std::optional(number_of(r->value)) : std::nullopt;
          });
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
    const packing::strata& all_;
    const packing::extent& e_;
  };

  std::size_t size_;
  std::byte* memory_;
  std::uint64_t bytes_;
  std::unique_ptr<packing::strata> strata_;
  version clock_;
};

/// A store with the work, compacted and opened again.
class compacted_store final : public bench::store {
 public:
  compacted_store(const std::function<void(bench::store&)>& write, const std::filesystem::path& path) {
    {
      writing_store written(path);
      write(written);
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
  struct kind {
    std::string what;
    unsigned threads;
    auto operator<=>(const kind&) const = default;
  };
  void add(const kind& of, const std::string& who, double rate) { rates_[of][who].push_back(rate); }
  [[nodiscard]] json rows(std::uint64_t n) const {
    json all = json::array();
    for (const auto& [of, by] : rates_) {
      for (const auto& [who, rates] : by) {
        const auto [least, greatest] = std::ranges::minmax(rates);
        json one = {{"suite", "packed"},
                    {"workload", of.what},
                    {"store", who},
                    {"threads", of.threads},
                    {"n", n},
                    {"repetitions", rates.size()},
                    {"min", least},
                    {"ops_per_second", bench::median(rates)},
                    {"max", greatest}};
        if (of.threads > std::thread::hardware_concurrency()) one["oversubscribed"] = true;
        all.push_back(std::move(one));
      }
    }
    return all;
  }
  void print(const std::string& first) const {
    fmt::print("{:28}{:>20}{:>14}{:>32}\n", "", "", "a second", first + " is times as fast");
    for (const auto& [of, by] : rates_) {
      const std::string what = fmt::format("{}, T = {}", of.what, of.threads);
      if (!by.contains(first)) continue;
      for (const auto& [who, rates] : by) {
        std::vector<double> ratios;
        for (std::size_t i = 0; i < rates.size(); ++i) ratios.push_back(by.at(first)[i] / rates[i]);
        fmt::print("{:28}{:>20}{:14.4g}{:>20.2f} ({:.2f} to {:.2f})\n", what, who, bench::median(rates),
                   bench::median(ratios), *std::ranges::min_element(ratios), *std::ranges::max_element(ratios));
      }
    }
  }

 private:
  std::map<kind, std::map<std::string, std::vector<double>>> rates_;
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
  const auto named = [&](const char* what) { return measurements::kind{what, threads}; };
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

void measure_deep(const deep_work& work, const std::vector<subject>& all, unsigned threads, int round,
                  measurements& out) {
  const std::vector<std::uint32_t> order = shuffled(work.keys.size(), 60 + static_cast<std::uint64_t>(round));
  const key_list keys = in_order_of(work.keys, order);
  for (std::size_t turn = 0; turn < all.size(); ++turn) {
    const subject& s = all[(turn + static_cast<std::size_t>(round)) % all.size()];
    const double seconds = history_all(*s.store, threads, keys, [&](std::size_t j) -> std::span<const recorded_change> {
      return work.histories[order[j]];
    });
    out.add({"deep history", threads}, s.name, static_cast<double>(keys.size()) / seconds);
  }
}

/// The stores that are written and stay as they are, of those that this program was built with.
class written_stores {
 public:
  explicit written_stores(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~written_stores() {
    open_.clear();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  written_stores(const written_stores&) = delete;
  written_stores& operator=(const written_stores&) = delete;

  [[nodiscard]] std::vector<subject> write(std::initializer_list<const char*> names, std::uint64_t records,
                                           std::uint64_t keys, const std::function<void(bench::store&)>& work) {
    std::vector<subject> all;
    for (const char* name : names) {
      const store_kind* kind = kind_of_name(name);
      if (kind == nullptr) continue;
      const std::filesystem::path place = folder_ / fmt::format("{}-{}", name, open_.size());
      std::filesystem::create_directories(place);
      open_.push_back(kind->open({.folder = place, .threads = 2, .records = records, .keys = keys}));
      work(*open_.back());
      all.push_back({name, open_.back().get()});
    }
    return all;
  }
  bench::store* add(std::unique_ptr<bench::store> made) { return open_.emplace_back(std::move(made)).get(); }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
  std::vector<std::unique_ptr<bench::store>> open_;
};

void save(const measurements& measured, const chosen& how, const std::filesystem::path& folder) {
  json about = machine();
  about["folder"] = folder.parent_path().string();
  about["mount"] = mount_of(folder.parent_path());
  json result = {{"icecore", library_version()}, {"machine", std::move(about)}};
  result["stores"] = {{{"name", "compacted"}, {"configuration", "icecore, packed by compact() and opened again"}},
                      {{"name", "packed"}, {"configuration", "icecore's packed records, without a store"}}};
  for (const char* name : {"icecore-none", "LMDB-batch", "LockedMap", "absl"}) {
    if (const store_kind* kind = kind_of_name(name)) {
      result["stores"].push_back({{"name", name}, {"configuration", kind->configuration}});
    }
  }
  result["rows"] = measured.rows(2 * how.n);
  std::ofstream out(how.json);
  out << result.dump(2) << '\n';
  out.close();
  if (!out) throw std::runtime_error(how.json.string() + " cannot be written");
}

void compare(const chosen& how) {
  written_stores open(std::filesystem::path("/dev/shm") / fmt::format("icecore-packed-{}", getpid()));
  written_work work(how.n);
  const auto write = [&](bench::store& s) { work.write_to(s); };
  std::vector<subject> all = open.write({"icecore-none", "LMDB-batch"}, 3 * how.n, 2 * how.n, write);
  const auto begin = std::chrono::steady_clock::now();
  auto packed = std::make_unique<packed_store>(work, how.block_bytes);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("packed {} records of {} keys in {:.3f} s: {:.1f} bytes a key, {:.0f} MB/s\n", 3 * how.n, 2 * how.n,
             seconds, static_cast<double>(packed->bytes()) / static_cast<double>(2 * how.n),
             static_cast<double>(packed->bytes()) / seconds / 1e6);
  all.push_back({"packed", open.add(std::move(packed))});
  all.push_back({"compacted", open.add(std::make_unique<compacted_store>(write, open.folder() / "compacted.ice"))});

  deep_work deep(how);
  const auto write_deep = [&](bench::store& s) { deep.write_to(s); };
  const std::uint64_t deep_records = how.deep_keys * how.depth;
  std::vector<subject> all_deep =
      open.write({"icecore-none", "LMDB-batch", "LockedMap", "absl"}, deep_records, how.deep_keys, write_deep);
  all_deep.push_back(
      {"compacted", open.add(std::make_unique<compacted_store>(write_deep, open.folder() / "deep.ice"))});

  measurements out;
  for (int round = 0; round < how.repetitions; ++round) {
    for (const unsigned threads : {1U, 2U}) {
      measure(work, all, threads, round, out);
      measure_deep(deep, all_deep, threads, round, out);
    }
  }
  out.print("packed");
  out.print("compacted");
  if (!how.json.empty()) save(out, how, open.folder());
}

}  // namespace

int main(int count, char** arguments) try {
  chosen how;
  CLI::App program("Packed histories beside a store that was just written, LMDB, and maps in memory", "icecore_packed");
  program.add_option("N", how.n, "keys that are inserted twice; half of all are removed")
      ->check(CLI::Range(1'000, 1'000'000'000));
  program.add_option("--deep-keys", how.deep_keys, "keys of the deep histories")->check(CLI::Range(1, 100'000'000));
  program.add_option("--depth", how.depth, "versions of each of these")->check(CLI::Range(1, 100'000'000));
  program.add_option("--block-bytes", how.block_bytes, "of the blocks packed in memory")
      ->check(CLI::Range(4096, 1 << 20));
  program.add_option("--repetitions", how.repetitions)->check(CLI::Range(1, 1000));
  program.add_option("--json", how.json, "write the figures to this file");
  CLI11_PARSE(program, count, arguments);
  compare(how);
} catch (const std::exception& failed) {
  fmt::print(stderr, "icecore_packed: {}\n", failed.what());
  return 1;
}
