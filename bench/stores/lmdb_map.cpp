// LMDB as a map: its plain use, with a key and a value that updates overwrite.
//
// With sync each commit calls msync for its pages and for the root; on a file system in memory this is just a system
// call. Without sync, commits are not durable, and on a disk not even safe.
#include <lmdb.h>

#include "kinds.hpp"
#include "map.hpp"

namespace icecore::bench {
namespace {

void check(int code) {
  if (code != MDB_SUCCESS) throw std::runtime_error(std::string("LMDB: ") + mdb_strerror(code));
}

/// LMDB does not write through the pointer, although its type would allow it.
MDB_val value_of(std::string_view bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }
std::string_view view_of(const MDB_val& value) { return {static_cast<const char*>(value.mv_data), value.mv_size}; }

struct environment_closer {
  void operator()(MDB_env* environment) const { mdb_env_close(environment); }
};
struct transaction_ender {
  void operator()(MDB_txn* transaction) const { mdb_txn_abort(transaction); }
};
struct cursor_closer {
  void operator()(MDB_cursor* cursor) const { mdb_cursor_close(cursor); }
};
using transaction = std::unique_ptr<MDB_txn, transaction_ender>;

struct lmdb_state {
  std::unique_ptr<MDB_env, environment_closer> environment;
  MDB_dbi table = 0;

  [[nodiscard]] transaction begin(unsigned flags) const {
    MDB_txn* begun = nullptr;
    check(mdb_txn_begin(environment.get(), nullptr, flags, &begun));
    return transaction(begun);
  }
};

void commit(transaction done) { check(mdb_txn_commit(done.release())); }

class lmdb_map_session final : public map_session {
 public:
  explicit lmdb_map_session(lmdb_state& state) : state_(state) {}

  void insert(std::string_view key, std::string_view value) override { put(key, value); }
  void update(std::string_view key, std::string_view value) override { put(key, value); }

  std::optional<std::string_view> read(std::string_view key) override {
    renew();
    MDB_val wanted = value_of(key);
    MDB_val found{};
    const int code = mdb_get(reading_.get(), state_.table, &wanted, &found);
    if (code == MDB_NOTFOUND) return std::nullopt;
    check(code);
    return view_of(found);
  }

  void scan(std::string_view from, std::size_t count, pair_columns& out) override {
    renew();
    if (!cursor_) {
      MDB_cursor* opened = nullptr;
      check(mdb_cursor_open(reading_.get(), state_.table, &opened));
      cursor_.reset(opened);
    } else {
      check(mdb_cursor_renew(reading_.get(), cursor_.get()));
    }
    MDB_val key = value_of(from);
    MDB_val value{};
    int code = mdb_cursor_get(cursor_.get(), &key, &value, MDB_SET_RANGE);
    while (code == MDB_SUCCESS && out.count() < count) {
      out.add(view_of(key), view_of(value));
      code = mdb_cursor_get(cursor_.get(), &key, &value, MDB_NEXT);
    }
    if (code != MDB_NOTFOUND) check(code);
  }

 private:
  void put(std::string_view key, std::string_view value) {
    release();
    transaction writing = state_.begin(0);
    MDB_val at = value_of(key);
    MDB_val data = value_of(value);
    check(mdb_put(writing.get(), state_.table, &at, &data, 0));
    commit(std::move(writing));
  }

  /// A read shows everything that was committed when it began.
  void renew() {
    release();
    if (reading_) {
      check(mdb_txn_renew(reading_.get()));
    } else {
      reading_ = state_.begin(MDB_RDONLY);
    }
    active_ = true;
  }

  /// Lets LMDB reuse the pages that only this reader could still see.
  void release() {
    if (active_) mdb_txn_reset(reading_.get());
    active_ = false;
  }

  lmdb_state& state_;
  transaction reading_;
  std::unique_ptr<MDB_cursor, cursor_closer> cursor_;  // belongs to a read transaction, so it is closed before that
  bool active_ = false;
};

class lmdb_map final : public map {
 public:
  lmdb_map(const opening& how, bool syncs) {
    MDB_env* created = nullptr;
    check(mdb_env_create(&created));
    state_.environment.reset(created);
    // This only takes address space and a sparse file, so a generous size is better: old pages are kept while a reader
    // needs them.
    constexpr std::size_t map_size_min = std::size_t{64} << 30;
    check(mdb_env_set_mapsize(created, map_size_min + 16 * how.records * how.record_bytes()));
    check(mdb_env_set_maxreaders(created, 1024));
    // WRITEMAP writes without malloc and memcpy; NOTLS lets a reading thread also write.
    constexpr unsigned flags = MDB_WRITEMAP | MDB_NOTLS | MDB_NOMEMINIT;
    const unsigned asked = (syncs ? 0 : MDB_NOSYNC) | (how.reads_ahead ? 0 : MDB_NORDAHEAD);
    check(mdb_env_open(created, how.folder.c_str(), flags | asked, 0644));
    transaction first = state_.begin(0);
    check(mdb_dbi_open(first.get(), nullptr, 0, &state_.table));
    commit(std::move(first));
  }

  std::unique_ptr<map_session> new_session() override { return std::make_unique<lmdb_map_session>(state_); }
  void settle() override { check(mdb_env_sync(state_.environment.get(), 1)); }

 private:
  lmdb_state state_;
};

store_kind kind_of(std::string name, bool syncs) {
  return {.name = std::move(name),
          .configuration = std::string(mdb_version(nullptr, nullptr, nullptr)) + ". MDB_WRITEMAP" +
                           (syncs ? ", each commit synced" : " and MDB_NOSYNC") +
                           "; a write transaction an operation, a read transaction renewed for each read.",
          .survives_kill = true,
          .parallel_extract = false,
          .open_map = [syncs](const opening& how) { return std::make_unique<lmdb_map>(how, syncs); }};
}

}  // namespace

std::vector<store_kind> lmdb_map_kinds() { return {kind_of("LMDB-nosync", false), kind_of("LMDB-sync", true)}; }

}  // namespace icecore::bench
