// icecore with its B+-tree in each durability, and with the lock-free skip list of the paper: ESkipList and PSkipList
// (IPDPS 2022, section V-B) are that index without and with persistence.
#include "icecore/icecore.hpp"

#include "icecore_session.hpp"
#include "kinds.hpp"

namespace icecore::bench {
namespace {

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
