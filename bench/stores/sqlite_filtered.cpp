// SQLite in the suite `query`: one statement that the library evaluates while it walks the table in key order.
//
// `SQLite-newest` has a row of key and number; its statement has the condition. `SQLite-versions` has rows (key,
// version, number), as the paper's SQLiteReg: of each key the first row that is visible is tested.
#include <sqlite3.h>

#include "filtered.hpp"
#include "kinds.hpp"

namespace icecore::bench {
namespace {

struct closer {
  void operator()(sqlite3* opened) const { sqlite3_close(opened); }
};
struct finalizer {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using prepared = std::unique_ptr<sqlite3_stmt, finalizer>;

class sqlite_filtered final : public filtered_store {
 public:
  sqlite_filtered(const opening& how, bool versions) : versions_(versions) {
    sqlite3* opened = nullptr;
    const int code = sqlite3_open((how.folder / "pairs.sqlite").c_str(), &opened);
    database_.reset(opened);
    check(code);
    execute(
        "PRAGMA synchronous = OFF; PRAGMA journal_mode = WAL; PRAGMA mmap_size = 2147418112;"
        "PRAGMA cache_size = -2097152; PRAGMA secure_delete = OFF;");
    execute(versions ? "CREATE TABLE pairs (key BLOB NOT NULL, version INTEGER NOT NULL, number INTEGER NOT NULL, "
                       "PRIMARY KEY (key, version DESC)) WITHOUT ROWID"
                     : "CREATE TABLE pairs (key BLOB NOT NULL PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID");
  }

  void load(std::span<const filtered_pair> pairs) override {
    const prepared write = statement(versions_ ? "INSERT INTO pairs (key, number, version) VALUES (?1, ?2, ?3)"
                                               : "INSERT OR REPLACE INTO pairs (key, number) VALUES (?1, ?2)");
    execute("BEGIN");
    for (const filtered_pair& p : pairs) {
      const auto bytes = p.key_bytes();
      check(sqlite3_bind_blob(write.get(), 1, bytes.data(), static_cast<int>(bytes.size()), SQLITE_STATIC));
      check(sqlite3_bind_int64(write.get(), 2, p.number));
      if (versions_) check(sqlite3_bind_int64(write.get(), 3, static_cast<sqlite3_int64>(clock_)));
      if (sqlite3_step(write.get()) != SQLITE_DONE) check(SQLITE_ERROR);
      sqlite3_reset(write.get());
    }
    execute("COMMIT");
    execute("PRAGMA wal_checkpoint(TRUNCATE)");
    ++clock_;
  }

  void find_below(std::int64_t below, unsigned, std::string& keys) override {
    keys.clear();
    if (versions_) return find_visible_below(below, keys);
    const prepared read = statement("SELECT key FROM pairs WHERE number < ?1 ORDER BY key");
    check(sqlite3_bind_int64(read.get(), 1, below));
    while (step(read)) keys.append(key(read));
  }

 private:
  void find_visible_below(std::int64_t below, std::string& keys) const {
    const prepared read = statement("SELECT key, number FROM pairs WHERE version <= ?1 ORDER BY key, version DESC");
    check(sqlite3_bind_int64(read.get(), 1, static_cast<sqlite3_int64>(clock_ - 1)));
    std::string decided;  // the key whose newest visible number was tested
    while (step(read)) {
      const std::string_view own = key(read);
      if (own == decided) continue;
      decided = own;
      if (sqlite3_column_int64(read.get(), 1) < below) keys.append(own);
    }
  }

  [[nodiscard]] bool step(const prepared& read) const {
    const int code = sqlite3_step(read.get());
    if (code != SQLITE_ROW && code != SQLITE_DONE) check(code);
    return code == SQLITE_ROW;
  }
  [[nodiscard]] static std::string_view key(const prepared& read) {
    const void* const bytes = sqlite3_column_blob(read.get(), 0);
    return {static_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_column_bytes(read.get(), 0))};
  }
  [[nodiscard]] prepared statement(const char* text) const {
    sqlite3_stmt* made = nullptr;
    check(sqlite3_prepare_v2(database_.get(), text, -1, &made, nullptr));
    return prepared(made);
  }
  void execute(const char* commands) const {
    check(sqlite3_exec(database_.get(), commands, nullptr, nullptr, nullptr));
  }
  void check(int code) const {
    if (code != SQLITE_OK) throw std::runtime_error(std::string("SQLite: ") + sqlite3_errmsg(database_.get()));
  }

  bool versions_;
  version clock_ = 1;
  std::unique_ptr<sqlite3, closer> database_;
};

store_kind kind_of(std::string name, bool versions, const char* what) {
  return {.name = std::move(name),
          .configuration = "SQLite " + std::string(sqlite3_libversion()) + ". " + what +
                           ", without row numbers; write-ahead log, synchronous=OFF, mapped file, cache of 2 GiB.",
          .survives_kill = true,
          .parallel_extract = false,
          .open_filtered = [versions](const opening& how) { return std::make_unique<sqlite_filtered>(how, versions); }};
}

}  // namespace

std::vector<store_kind> sqlite_filtered_kinds() {
  return {kind_of("SQLite-newest", false, "Rows (key, number) and the condition in the statement"),
          kind_of("SQLite-versions", true, "Rows (key, version, number); the first visible one of a key is tested")};
}

}  // namespace icecore::bench
