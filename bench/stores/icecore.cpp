// icecore with its B+-tree in each durability, and with the lock-free skip list of the paper: ESkipList and PSkipList
// (IPDPS 2022, section V-B) are that index without and with persistence.
#include "icecore/icecore.hpp"

#include "kinds.hpp"

namespace icecore::bench {
namespace {

class icecore_session final : public session {
 public:
  explicit icecore_session(icecore::store& store) : store_(store) {}

  version insert(std::string_view key, std::string_view value) override { return store_.insert(key, value); }
  version remove(std::string_view key) override { return store_.remove(key).value(); }
  void tag() override { store_.tag(); }

  std::optional<std::string_view> find(std::string_view key, version at) override {
    value_ = store_.find(key, at);
    return value_ ? std::optional<std::string_view>(*value_) : std::nullopt;
  }

  void find_many(std::span<const std::string_view> keys, std::span<const version> at,
                 std::span<std::optional<std::uint64_t>> out) override {
    found_.resize(keys.size());
    const pin holds = store_.find_many(keys, at, found_);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      out[i] = found_[i] ? std::optional(number_of(*found_[i])) : std::nullopt;
    }
  }

  void history(std::string_view key, std::vector<recorded_change>& out) override {
    for (const auto& [version, value] : store_.history(key)) {
      out.push_back({version, value ? std::optional(number_of(*value)) : std::nullopt});
    }
  }

  std::uint64_t count_differences(version before, version after) override {
    std::uint64_t count = 0;
    auto differing = store_.diff(before, after);
    for ([[maybe_unused]] const difference& one : differing) ++count;
    return count;
  }

  void extract(version at, pair_columns& out, unsigned threads) override {
    out.set_count(store_.at(at).extract({.keys = out.keys(),
                                         .key_size = out.key_size(),
                                         .values = out.values(),
                                         .value_size = out.value_size(),
                                         .capacity = out.capacity()},
                                        threads));
  }

 private:
  icecore::store& store_;
  std::optional<value> value_;  // what find() returned last
  std::vector<std::optional<std::string_view>> found_;
};

options options_of(const opening& how, durability promised, index_kind index) {
  options chosen;
  chosen.durability = promised;
  chosen.emulate_durability = promised != durability::none;
  chosen.index = index;
  chosen.recovery_threads = how.threads;
  return chosen;
}

class icecore_store final : public store {
 public:
  icecore_store(const opening& how, durability promised, index_kind index)
      : existed_(std::filesystem::exists(how.folder / file_name)),
        store_(how.folder / file_name, options_of(how, promised, index)) {
    if (existed_ && !store_.stats().recovered_from_crash) {
      throw std::runtime_error("the store was closed, not killed: this does not measure recovery");
    }
  }

  std::unique_ptr<session> new_session() override { return std::make_unique<icecore_session>(store_); }
  [[nodiscard]] version clock() const override { return store_.clock(); }
  [[nodiscard]] std::uint64_t index_bytes() const override { return store_.stats().index_bytes; }

 private:
  static constexpr const char* file_name = "store.ice";
  bool existed_;
  icecore::store store_;
};

store_kind kind(std::string name, durability promised, index_kind index, std::string configuration) {
  return {
      .name = std::move(name),
      .configuration = std::move(configuration),
      .survives_kill = true,
      .parallel_extract = true,
      .tells_differences = true,
      .open = [promised, index](const opening& how) { return std::make_unique<icecore_store>(how, promised, index); }};
}

}  // namespace

std::vector<store_kind> icecore_kinds() {
  const std::string emulated = "; on a file system in memory the flushes are executed though nothing outlives power";
  const std::string versions = "; icecore's own histories under the paper's index";
  return {
      kind("icecore-none", durability::none, index_kind::btree, "B+-tree, durability none"),
      kind("icecore-tag", durability::tag, index_kind::btree,
           "B+-tree, every tag durable: it syncs the file, which on a file system in memory does little"),
      kind("icecore-operation", durability::operation, index_kind::btree, "B+-tree, every write durable" + emulated),
      kind("icecore-operation-persistent", durability::operation, index_kind::persistent,
           "persistent index, every write durable" + emulated),
      kind("ESkipList", durability::none, index_kind::skip_list,
           "the paper's lock-free skip list, durability none" + versions),
      kind("PSkipList", durability::operation, index_kind::skip_list,
           "the paper's lock-free skip list, every write durable" + emulated + versions),
  };
}

}  // namespace icecore::bench
