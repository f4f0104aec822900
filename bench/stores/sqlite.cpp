// SQLite as the paper used it (section V-B): one table of rows (version, key, value), where a row without a value is a
// removal; an index over key and version; prepared statements; one connection per thread; one transaction per
// operation. SQLiteReg is a file with a write-ahead log, SQLiteMem a database in memory with a cache that the threads
// share.
//
// Threads: in shared-cache mode one writer or several readers lock a table, and the library notifies a waiting thread
// when it may try again. In WAL mode a writer waits for the writer before it. A read ends when its function returns,
// because an unfinished read would keep its lock.
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <semaphore>
#include <thread>

#include "composite_key.hpp"
#include "kinds.hpp"

namespace icecore::bench {
namespace {

[[noreturn]] void fail(sqlite3* in) { throw std::runtime_error(std::string("SQLite: ") + sqlite3_errmsg(in)); }

struct connection_closer {
  void operator()(sqlite3* opened) const { sqlite3_close(opened); }
};
struct statement_finalizer {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using connection = std::unique_ptr<sqlite3, connection_closer>;

/// Blocks until the connection that holds a lock of the shared cache has ended its transaction.
void wait_for_unlock(sqlite3* blocked) {
  std::binary_semaphore unlocked(0);
  const auto wake = [](void** waiting, int count) {
    for (int i = 0; i < count; ++i) static_cast<std::binary_semaphore*>(waiting[i])->release();
  };
  if (sqlite3_unlock_notify(blocked, wake, &unlocked) != SQLITE_OK) fail(blocked);
  unlocked.acquire();
}

/// Called while another connection writes. The library's own busy_timeout sleeps for milliseconds, but a transaction
/// without a sync takes microseconds.
int wait_for_writer(void*, int times) {
  constexpr int yields = 100;
  constexpr int times_max = 1'000'000;  // over a minute
  if (times < yields) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return times < times_max;
}

bool is_locked(int code) { return (code & 0xff) == SQLITE_LOCKED; }

void execute(sqlite3* in, const std::string& commands) {
  for (;;) {
    const int code = sqlite3_exec(in, commands.c_str(), nullptr, nullptr, nullptr);
    if (code == SQLITE_OK) return;
    if (!is_locked(code)) fail(in);
    wait_for_unlock(in);
  }
}

class statement {
 public:
  statement(sqlite3* in, std::string_view command) : connection_(in) {
    sqlite3_stmt* prepared = nullptr;
    int code = SQLITE_OK;
    while (is_locked(code = sqlite3_prepare_v3(in, command.data(), static_cast<int>(command.size()),
                                               SQLITE_PREPARE_PERSISTENT, &prepared, nullptr))) {
      wait_for_unlock(in);
    }
    if (code != SQLITE_OK) fail(in);
    prepared_.reset(prepared);
  }

  /// The bytes must stay valid until the statement has been run.
  statement& bind(int place, std::string_view bytes) {
    return checked(sqlite3_bind_blob64(prepared_.get(), place, bytes.data(), bytes.size(), SQLITE_STATIC));
  }
  statement& bind(int place, version number) {
    return checked(sqlite3_bind_int64(prepared_.get(), place, static_cast<sqlite3_int64>(number)));
  }
  statement& bind_nothing(int place) { return checked(sqlite3_bind_null(prepared_.get(), place)); }

  /// Calls visit(*this) for each row until it returns false.
  template <class Visit>
  void run(Visit&& visit) {
    const struct resetter {
      ~resetter() { sqlite3_reset(prepared); }  // returns the same code as the step
      sqlite3_stmt* prepared;
    } reset_at_end{prepared_.get()};
    for (;;) {
      const int code = sqlite3_step(prepared_.get());
      if (code == SQLITE_DONE) return;
      if (code == SQLITE_ROW) {
        if (!visit(*this)) return;
      } else if (is_locked(code)) {
        // The first step takes the locks, so no row has been visited yet.
        sqlite3_reset(prepared_.get());
        wait_for_unlock(connection_);
      } else {
        fail(connection_);
      }
    }
  }
  void run() {
    run([](statement&) { return true; });
  }

  [[nodiscard]] bool has(int column) { return sqlite3_column_type(prepared_.get(), column) != SQLITE_NULL; }
  [[nodiscard]] std::string_view bytes(int column) {
    const void* bytes = sqlite3_column_blob(prepared_.get(), column);
    return {static_cast<const char*>(bytes), static_cast<std::size_t>(sqlite3_column_bytes(prepared_.get(), column))};
  }
  [[nodiscard]] version number(int column) {
    return static_cast<version>(sqlite3_column_int64(prepared_.get(), column));
  }

 private:
  statement& checked(int code) {
    if (code != SQLITE_OK) fail(connection_);
    return *this;
  }

  sqlite3* connection_;
  std::unique_ptr<sqlite3_stmt, statement_finalizer> prepared_;
};

struct sqlite_state {
  version_clock clock;
  std::string name;      // of the database, as a URI
  std::string settings;  // of each connection

  [[nodiscard]] connection connect() const {
    sqlite3* opened = nullptr;
    constexpr int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    const int code = sqlite3_open_v2(name.c_str(), &opened, flags, nullptr);
    connection made(opened);
    if (code != SQLITE_OK) fail(opened);
    sqlite3_extended_result_codes(opened, 1);
    sqlite3_busy_handler(opened, wait_for_writer, nullptr);
    execute(opened, settings);
    return made;
  }
};

class sqlite_session final : public session {
 public:
  explicit sqlite_session(sqlite_state& state)
      : state_(state),
        connection_(state.connect()),
        write_(connection_.get(), "INSERT OR REPLACE INTO changes (version, key, value) VALUES (?1, ?2, ?3)"),
        find_(connection_.get(),
              "SELECT value FROM changes WHERE key = ?1 AND version <= ?2 ORDER BY version DESC LIMIT 1"),
        history_(connection_.get(), "SELECT version, value FROM changes WHERE key = ?1 ORDER BY version DESC"),
        extract_(connection_.get(), "SELECT key, value FROM changes WHERE version <= ?1 ORDER BY key, version DESC") {}

  version insert(std::string_view key, std::string_view value) override {
    require_not_empty(value);
    const version at = state_.clock.now();
    write_.bind(1, at).bind(2, key).bind(3, value).run();
    return at;
  }
  version remove(std::string_view key) override {
    const version at = state_.clock.now();
    write_.bind(1, at).bind(2, key).bind_nothing(3).run();
    return at;
  }
  void tag() override { state_.clock.tag(); }

  std::optional<std::string_view> find(std::string_view key, version at) override {
    bool found = false;
    find_.bind(1, key).bind(2, at).run([&](statement& row) {
      found = row.has(0);
      if (found) value_ = row.bytes(0);
      return false;
    });
    return found ? std::optional<std::string_view>(value_) : std::nullopt;
  }

  void history(std::string_view key, std::vector<recorded_change>& out) override {
    history_.bind(1, key).run([&](statement& row) {
      out.push_back({row.number(0), row.has(1) ? std::optional(number_of(row.bytes(1))) : std::nullopt});
      return true;
    });
  }

  void extract(version at, pair_columns& out, unsigned) override {
    std::string decided;  // the key whose newest change has been seen
    extract_.bind(1, at).run([&](statement& row) {
      const std::string_view key = row.bytes(0);
      if (key != decided) {
        decided = key;
        if (row.has(1)) out.add(key, row.bytes(1));
      }
      return true;
    });
  }

 private:
  sqlite_state& state_;
  connection connection_;  // must be declared before its statements
  statement write_, find_, history_, extract_;
  std::string value_;
};

/// Settings of the whole library: without memory statistics its threads need no lock to allocate ("Recommended
/// Compile-time Options", SQLITE_DEFAULT_MEMSTATUS). A library in use refuses later calls, which does no harm.
void configure_library() { [[maybe_unused]] static const int once = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0); }

class sqlite_store final : public store {
 public:
  sqlite_store(const opening& how, bool in_memory) {
    configure_library();
    // Debian's library overwrites deleted data with zeros by default; no other store here does that.
    state_.settings = "PRAGMA synchronous = OFF; PRAGMA secure_delete = OFF;";
    if (in_memory) {
      static std::atomic<std::uint64_t> count{0};
      state_.name = "file:icecore-" + std::to_string(++count) + "?mode=memory&cache=shared";
    } else {
      const std::uint64_t cache_kib = std::max<std::uint64_t>((4 << 20) / std::max(how.threads, 1U), 64 << 10);
      state_.name = "file:" + (how.folder / "changes.sqlite").string();
      // The map is as large as the library allows. A longer log makes writes faster (sqlite.org/wal.html, section 2.3).
      state_.settings +=
          "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 10000; PRAGMA mmap_size = 2147418112;"
          "PRAGMA cache_size = -" +
          std::to_string(cache_kib) + ";";
    }
    first_ = state_.connect();
    // Rows without row numbers live in the index itself; "works best when individual rows are not too large", about a
    // twentieth of a page (sqlite.org/withoutrowid.html).
    constexpr std::uint64_t small_row_bytes_max = 200;
    execute(first_.get(),
            std::string("CREATE TABLE IF NOT EXISTS changes (version INTEGER NOT NULL, key BLOB NOT NULL, value BLOB, "
                        "PRIMARY KEY (key, version DESC))") +
                (how.record_bytes() <= small_row_bytes_max ? " WITHOUT ROWID" : ""));
  }

  std::unique_ptr<session> new_session() override { return std::make_unique<sqlite_session>(state_); }
  [[nodiscard]] version clock() const override { return state_.clock.now(); }

 private:
  sqlite_state state_;
  connection first_;  // a database in memory lives as long as one connection to it
};

}  // namespace

std::vector<store_kind> sqlite_kinds() {
  return {
      {.name = "SQLiteReg",
       .configuration = "SQLite " + std::string(sqlite3_libversion()) +
                        ". As the paper: rows (version, key, value) indexed by key and version, prepared statements, "
                        "a connection a thread, write-ahead log; synchronous=OFF, mapped file, large cache.",
       .survives_kill = true,
       .parallel_extract = false,
       .open = [](const opening& how) { return std::make_unique<sqlite_store>(how, false); }},
      {.name = "SQLiteMem",
       .configuration = "As SQLiteReg, but in memory with a shared cache; who waits for a lock is notified.",
       .survives_kill = false,
       .parallel_extract = false,
       .open = [](const opening& how) { return std::make_unique<sqlite_store>(how, true); }}};
}

}  // namespace icecore::bench
