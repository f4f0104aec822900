// LMDB: composite keys in a copy-on-write B+tree in mapped memory. Two kinds: one transaction per operation, and
// batches.
//
// A session collects a batch in its memory and puts it in one write transaction: LMDB has one write lock, and no
// session holds it between two calls. Before it reads, a session commits what it has collected.
//
// The pages of a killed process are in the file, because they are mapped shared. A half-done transaction is not
// reachable from the root, which is written last.
#include <lmdb.h>

#include "composite_session.hpp"
#include "kinds.hpp"

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

struct lmdb_state : composite_state {
  std::unique_ptr<MDB_env, environment_closer> environment;
  MDB_dbi table = 0;
  std::uint64_t operations_per_transaction = 1;
  std::atomic<std::uint64_t> commits{0};  // completed commits, which readers must see: release after, acquire before

  [[nodiscard]] transaction begin(unsigned flags) const {
    MDB_txn* begun = nullptr;
    check(mdb_txn_begin(environment.get(), nullptr, flags, &begun));
    return transaction(begun);
  }
};

void commit(transaction done) { check(mdb_txn_commit(done.release())); }

/// A read transaction that is used again and again, with its cursor.
class reader {
 public:
  explicit reader(lmdb_state& state) : state_(state) {}

  /// Shows at least everything that was committed when its reads began.
  reader& renewed() {
    const std::uint64_t commits = state_.commits.load(std::memory_order_acquire);
    if (!active_ || reads_ == state_.operations_per_transaction || commits != commits_seen_) {
      renew();
      commits_seen_ = commits;
      reads_ = 0;
    }
    ++reads_;
    return *this;
  }

  /// Lets LMDB reuse the pages that only this reader could still see.
  void release() {
    if (active_) mdb_txn_reset(transaction_.get());
    active_ = false;
  }

  bool seek_first() { return move(MDB_FIRST); }
  bool seek(std::string_view composite) {
    key_ = value_of(composite);
    return move(MDB_SET_RANGE);
  }
  bool next() { return move(MDB_NEXT); }
  [[nodiscard]] std::string_view key() const { return view_of(key_); }
  [[nodiscard]] std::string_view value() const { return view_of(value_); }

 private:
  void renew() {
    release();
    if (!transaction_) {
      transaction_ = state_.begin(MDB_RDONLY);
      MDB_cursor* opened = nullptr;
      check(mdb_cursor_open(transaction_.get(), state_.table, &opened));
      cursor_.reset(opened);
    } else {
      check(mdb_txn_renew(transaction_.get()));
      check(mdb_cursor_renew(transaction_.get(), cursor_.get()));
    }
    active_ = true;
  }

  bool move(MDB_cursor_op to) {
    const int code = mdb_cursor_get(cursor_.get(), &key_, &value_, to);
    if (code == MDB_NOTFOUND) return false;
    check(code);
    return true;
  }

  lmdb_state& state_;
  transaction transaction_;
  std::unique_ptr<MDB_cursor, cursor_closer> cursor_;  // belongs to a read transaction, so it is closed before that
  bool active_ = false;
  std::uint64_t reads_ = 0, commits_seen_ = 0;
  MDB_val key_{}, value_{};
};

class lmdb_session final : public composite_session {
 public:
  explicit lmdb_session(lmdb_state& state) : composite_session(state), state_(state), reader_(state) {}

  void commit() override {
    if (batch_.empty()) return;
    transaction writing = state_.begin(0);
    std::string_view bytes = gathered_;
    for (const auto& [key_size, value_size] : batch_) {
      put_in(writing, bytes.substr(0, key_size), bytes.substr(key_size, value_size));
      bytes.remove_prefix(key_size + value_size);
    }
    finish(std::move(writing));
    batch_.clear();
    gathered_.clear();
  }

  std::optional<std::string_view> find(std::string_view key, version at) override {
    return find_at(committed(), key, at);
  }
  void history(std::string_view key, std::vector<recorded_change>& out) override {
    append_history(committed(), key, out);
  }
  void extract(version at, pair_columns& out, unsigned) override { extract_at(committed(), at, out); }

 private:
  struct sizes {
    std::size_t key, value;
  };
  static constexpr std::size_t gathered_bytes_max = std::size_t{64} << 20;

  void put(std::string_view composite, std::string_view value) override {
    reader_.release();
    if (state_.operations_per_transaction == 1) {
      transaction writing = state_.begin(0);
      put_in(writing, composite, value);
      return finish(std::move(writing));
    }
    gathered_.append(composite).append(value);
    batch_.push_back({composite.size(), value.size()});
    if (batch_.size() == state_.operations_per_transaction || gathered_.size() >= gathered_bytes_max) commit();
  }

  void put_in(const transaction& writing, std::string_view composite, std::string_view value) const {
    MDB_val key = value_of(composite);
    MDB_val data = value_of(value);
    check(mdb_put(writing.get(), state_.table, &key, &data, 0));
  }

  void finish(transaction writing) {
    bench::commit(std::move(writing));
    state_.commits.fetch_add(1, std::memory_order_release);
  }

  reader& committed() {
    commit();
    return reader_.renewed();
  }

  lmdb_state& state_;
  reader reader_;
  std::string gathered_;
  std::vector<sizes> batch_;
};

class lmdb_store final : public store {
 public:
  lmdb_store(const opening& how, std::uint64_t operations_per_transaction) {
    state_.operations_per_transaction = operations_per_transaction;
    MDB_env* created = nullptr;
    check(mdb_env_create(&created));
    state_.environment.reset(created);
    // This only takes address space and a sparse file, so a generous size is better: old pages are kept while a reader
    // needs them.
    constexpr std::size_t map_size_min = std::size_t{64} << 30;
    check(mdb_env_set_mapsize(created, map_size_min + 16 * how.records * how.record_bytes()));
    check(mdb_env_set_maxreaders(created, 1024));
    // WRITEMAP writes without malloc and memcpy; NOSYNC as for all stores here; NOTLS lets a reading thread also write.
    check(mdb_env_open(created, how.folder.c_str(), MDB_WRITEMAP | MDB_NOSYNC | MDB_NOTLS | MDB_NOMEMINIT, 0644));
    transaction first = state_.begin(0);
    check(mdb_dbi_open(first.get(), nullptr, 0, &state_.table));
    commit(std::move(first));
  }

  std::unique_ptr<session> new_session() override { return std::make_unique<lmdb_session>(state_); }
  [[nodiscard]] version clock() const override { return state_.clock.now(); }

 private:
  lmdb_state state_;
};

store_kind kind_of(std::string name, std::string configuration, std::uint64_t operations_per_transaction) {
  return {.name = std::move(name),
          .configuration = std::move(configuration),
          .survives_kill = true,
          .parallel_extract = false,
          .open = [operations_per_transaction](const opening& how) {
            return std::make_unique<lmdb_store>(how, operations_per_transaction);
          }};
}

}  // namespace

std::vector<store_kind> lmdb_kinds() {
  return {
      kind_of(
          "LMDB",
          std::string(mdb_version(nullptr, nullptr, nullptr)) +
              ". Keys followed by inverted versions; MDB_WRITEMAP and MDB_NOSYNC; a write transaction an operation, a "
              "read transaction renewed for each read.",
          1),
      kind_of("LMDB-batch",
              "As LMDB, its best case: write transactions of 1,000 operations, which are not visible and not safe "
              "before that, and read transactions kept for 1,000 reads or until someone commits.",
              1'000)};
}

}  // namespace icecore::bench
