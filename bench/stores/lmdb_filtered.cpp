// LMDB in the suite `query`: a cursor goes over all pairs and tests each number in the mapped page.
//
// `LMDB-newest` has a key and its number. `LMDB-versions` has keys followed by inverted versions (composite_key.hpp):
// of each key it tests the first number that is visible.
#include <lmdb.h>

#include "composite_key.hpp"
#include "filtered.hpp"
#include "kinds.hpp"

namespace icecore::bench {
namespace {

void check(int code) {
  if (code != MDB_SUCCESS) throw std::runtime_error(std::string("LMDB: ") + mdb_strerror(code));
}

/// LMDB does not write through the pointer, although its type would allow it.
MDB_val mdb_value_of(std::string_view bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }
std::string_view bytes_in(const MDB_val& value) { return {static_cast<const char*>(value.mv_data), value.mv_size}; }

struct environment_closer {
  void operator()(MDB_env* environment) const { mdb_env_close(environment); }
};

class lmdb_filtered final : public filtered_store {
 public:
  lmdb_filtered(const opening& how, bool versions) : versions_(versions) {
    MDB_env* created = nullptr;
    check(mdb_env_create(&created));
    environment_.reset(created);
    constexpr std::size_t map_size_min = std::size_t{64} << 30;  // address space and a sparse file alone
    check(mdb_env_set_mapsize(created, map_size_min + 16 * how.records * how.record_bytes()));
    check(mdb_env_open(created, how.folder.c_str(), MDB_WRITEMAP | MDB_NOSYNC | MDB_NOMEMINIT, 0644));
    MDB_txn* const begun = begin(0);
    check(mdb_dbi_open(begun, nullptr, 0, &table_));
    check(mdb_txn_commit(begun));
  }

  void load(std::span<const filtered_pair> pairs) override {
    MDB_txn* const writing = begin(0);
    for (const filtered_pair& p : pairs) {
      const auto bytes = p.key_bytes();
      const composite_key composite(text_of(bytes), clock_);
      MDB_val key = mdb_value_of(versions_ ? composite.bytes() : text_of(bytes));
      MDB_val value = mdb_value_of(bytes_of(p.number));
      check(mdb_put(writing, table_, &key, &value, 0));
    }
    check(mdb_txn_commit(writing));
    ++clock_;
  }

  void find_below(std::int64_t below, unsigned, std::string& keys) override {
    keys.clear();
    MDB_txn* const reading = begin(MDB_RDONLY);
    MDB_cursor* cursor = nullptr;
    check(mdb_cursor_open(reading, table_, &cursor));
    const int code = versions_ ? walk_versions(cursor, below, keys) : walk(cursor, below, keys);
    mdb_cursor_close(cursor);
    mdb_txn_abort(reading);
    if (code != MDB_NOTFOUND) check(code);
  }

 private:
  static int walk(MDB_cursor* cursor, std::int64_t below, std::string& keys) {
    MDB_val key{};
    MDB_val value{};
    int code = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    for (; code == MDB_SUCCESS; code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
      if (signed_number_of(bytes_in(value)) < below) keys.append(bytes_in(key));
    }
    return code;
  }

  [[nodiscard]] int walk_versions(MDB_cursor* cursor, std::int64_t below, std::string& keys) const {
    const version at = clock_ - 1;
    std::string decided;  // the key whose newest visible number was tested
    MDB_val key{};
    MDB_val value{};
    int code = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    for (; code == MDB_SUCCESS; code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
      const std::string_view composite = bytes_in(key);
      const std::string_view own = key_of(composite);
      if (own == decided || version_of(composite) > at) continue;
      decided = own;
      if (signed_number_of(bytes_in(value)) < below) keys.append(own);
    }
    return code;
  }

  [[nodiscard]] MDB_txn* begin(unsigned flags) const {
    MDB_txn* begun = nullptr;
    check(mdb_txn_begin(environment_.get(), nullptr, flags, &begun));
    return begun;
  }

  bool versions_;
  version clock_ = 1;
  std::unique_ptr<MDB_env, environment_closer> environment_;
  MDB_dbi table_ = 0;
};

store_kind kind_of(std::string name, bool versions, const char* what) {
  return {.name = std::move(name),
          .configuration = std::string(mdb_version(nullptr, nullptr, nullptr)) + ". " + what +
                           "; MDB_WRITEMAP and MDB_NOSYNC; a cursor tests each number in its page.",
          .survives_kill = true,
          .parallel_extract = false,
          .open_filtered = [versions](const opening& how) { return std::make_unique<lmdb_filtered>(how, versions); }};
}

}  // namespace

std::vector<store_kind> lmdb_filtered_kinds() {
  return {kind_of("LMDB-newest", false, "Newest numbers alone"),
          kind_of("LMDB-versions", true, "Keys followed by inverted versions")};
}

}  // namespace icecore::bench
