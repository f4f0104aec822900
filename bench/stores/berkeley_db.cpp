// Berkeley DB: composite keys in a B-tree, with a log and page locks.
//
// A read opens a new cursor, because a cursor that stays open would keep its page locked. A read or write is repeated
// if the library chose it to break a deadlock. extract reads in bulk, one buffer of pairs per call.
#include <db.h>

#include "composite_session.hpp"
#include "kinds.hpp"

namespace icecore::bench {
namespace {

void check(int code) {
  if (code != 0) throw std::runtime_error(std::string("Berkeley DB: ") + db_strerror(code));
}

struct environment_closer {
  void operator()(DB_ENV* environment) const { environment->close(environment, 0); }
};
struct database_closer {
  void operator()(DB* database) const { database->close(database, 0); }
};
struct cursor_closer {
  void operator()(DBC* cursor) const { cursor->close(cursor); }
};
using cursor_handle = std::unique_ptr<DBC, cursor_closer>;

cursor_handle open_cursor(DB* database) {
  DBC* opened = nullptr;
  check(database->cursor(database, nullptr, &opened, 0));
  return cursor_handle(opened);
}

/// The library chose this read or write to break a deadlock; it must be repeated.
struct deadlock {};

/// Whether there is an entry.
bool there(int code) {
  if (code == DB_LOCK_DEADLOCK || code == DB_LOCK_NOTGRANTED) throw deadlock();
  if (code == DB_NOTFOUND) return false;
  check(code);
  return true;
}

auto repeated_at_deadlock(auto&& operation) {
  for (;;) {
    try {
      return operation();
    } catch (const deadlock&) {
    }
  }
}

/// Memory of ours that the library writes to.
DBT place_in(std::vector<char>& memory) {
  DBT place{};
  place.data = memory.data();
  place.ulen = static_cast<u_int32_t>(memory.size());
  place.flags = DB_DBT_USERMEM;
  return place;
}

/// The library does not write through the pointer, although its type would allow it.
DBT bytes_in(std::string_view bytes) {
  DBT in{};
  in.data = const_cast<char*>(bytes.data());
  in.size = static_cast<u_int32_t>(bytes.size());
  return in;
}

/// One entry per call.
class entry_cursor {
 public:
  entry_cursor(DB* database, std::vector<char>& value_memory)
      : cursor_(open_cursor(database)), key_memory_(composite_key::capacity), value_memory_(value_memory) {}

  bool seek_first() { return move(DB_FIRST); }
  bool seek(std::string_view composite) {
    composite.copy(key_memory_.data(), key_memory_.size());
    key_size_ = static_cast<u_int32_t>(composite.size());
    return move(DB_SET_RANGE);
  }
  bool next() { return move(DB_NEXT); }
  [[nodiscard]] std::string_view key() const { return {key_memory_.data(), key_size_}; }
  [[nodiscard]] std::string_view value() const { return {value_memory_.data(), value_size_}; }

 private:
  bool move(u_int32_t to) {
    for (;;) {
      DBT key = place_in(key_memory_), value = place_in(value_memory_);
      key.size = key_size_;
      const int code = cursor_->get(cursor_.get(), &key, &value, to);
      if (code == DB_BUFFER_SMALL && value.size > value.ulen) {
        value_memory_.resize(value.size);  // the cursor has not moved
        continue;
      }
      key_size_ = key.size;
      value_size_ = value.size;
      return there(code);
    }
  }

  cursor_handle cursor_;
  std::vector<char> key_memory_;
  std::vector<char>& value_memory_;
  u_int32_t key_size_ = 0, value_size_ = 0;
};

/// Many entries per call ("bulk retrieval").
class bulk_cursor {
 public:
  bulk_cursor(DB* database, std::vector<char>& memory) : cursor_(open_cursor(database)), memory_(memory) {
    constexpr std::size_t memory_size_min = std::size_t{4} << 20;
    if (memory_.size() < memory_size_min) memory_.resize(memory_size_min);
  }

  bool seek_first() { return fill(DB_FIRST, {}); }
  bool seek(std::string_view composite) { return fill(DB_SET_RANGE, composite); }
  bool next() {
    step();
    return position_ != nullptr || fill(DB_NEXT, {});
  }
  [[nodiscard]] std::string_view key() const { return key_; }
  [[nodiscard]] std::string_view value() const { return value_; }

 private:
  bool fill(u_int32_t from, std::string_view composite) {
    DBT key = bytes_in(composite);
    key.ulen = key.size;
    pairs_ = place_in(memory_);
    if (!there(cursor_->get(cursor_.get(), &key, &pairs_, from | DB_MULTIPLE_KEY))) return false;
    DB_MULTIPLE_INIT(position_, &pairs_);
    step();
    return true;
  }

  void step() {
    void *key = nullptr, *value = nullptr;
    std::size_t key_size = 0, value_size = 0;
    DB_MULTIPLE_KEY_NEXT(position_, &pairs_, key, key_size, value, value_size);
    key_ = {static_cast<const char*>(key), key_size};
    value_ = {static_cast<const char*>(value), value_size};
  }

  cursor_handle cursor_;
  std::vector<char>& memory_;
  DBT pairs_{};
  void* position_ = nullptr;  // in pairs_, as the library's macros keep it: null after the last
  std::string_view key_, value_;
};

struct berkeley_db_state : composite_state {
  std::unique_ptr<DB_ENV, environment_closer> environment;
  std::unique_ptr<DB, database_closer> database;
};

class berkeley_db_session final : public composite_session {
 public:
  explicit berkeley_db_session(berkeley_db_state& state)
      : composite_session(state), state_(state), value_memory_(4096) {}

  std::optional<std::string_view> find(std::string_view key, version at) override {
    return repeated_at_deadlock([&] {
      entry_cursor cursor(state_.database.get(), value_memory_);
      return find_at(cursor, key, at);
    });
  }

  void history(std::string_view key, std::vector<recorded_change>& out) override {
    const std::size_t already = out.size();
    repeated_at_deadlock([&] {
      out.resize(already);
      entry_cursor cursor(state_.database.get(), value_memory_);
      append_history(cursor, key, out);
    });
  }

  void extract(version at, pair_columns& out, unsigned) override {
    repeated_at_deadlock([&] {
      out.clear();
      bulk_cursor cursor(state_.database.get(), bulk_memory_);
      extract_at(cursor, at, out);
    });
  }

 private:
  void put(std::string_view composite, std::string_view value) override {
    repeated_at_deadlock([&] {
      DBT key = bytes_in(composite), data = bytes_in(value);
      DB* const database = state_.database.get();
      static_cast<void>(there(database->put(database, nullptr, &key, &data, 0)));
    });
    if (++puts_ % puts_before_checkpoint == 0) check_point();
  }

  /// Makes one only if this much was written since the last one, by all threads together.
  void check_point() {
    constexpr u_int32_t log_kib_between_checkpoints = 1 << 20;
    DB_ENV* const environment = state_.environment.get();
    check(environment->txn_checkpoint(environment, log_kib_between_checkpoints, 0, 0));
  }

  static constexpr std::uint64_t puts_before_checkpoint = 1024;

  berkeley_db_state& state_;
  std::vector<char> value_memory_, bulk_memory_;
  std::uint64_t puts_ = 0;
};

class berkeley_db_store final : public store {
 public:
  explicit berkeley_db_store(const opening& how) {
    DB_ENV* environment = nullptr;
    check(db_env_create(&environment, 0));
    state_.environment.reset(environment);
    configure(environment);
    // DB_RECOVER replays the log of a killed process. Only one process uses the store, so its regions may be private.
    check(environment->open(
        environment, how.folder.c_str(),
        DB_CREATE | DB_RECOVER | DB_PRIVATE | DB_THREAD | DB_INIT_MPOOL | DB_INIT_LOG | DB_INIT_LOCK | DB_INIT_TXN, 0));
    DB* database = nullptr;
    check(db_create(&database, environment, 0));
    state_.database.reset(database);
    check(database->set_pagesize(database, 4096));
    check(
        database->open(database, nullptr, "changes.db", nullptr, DB_BTREE, DB_CREATE | DB_THREAD | DB_AUTO_COMMIT, 0));
  }

  std::unique_ptr<session> new_session() override { return std::make_unique<berkeley_db_session>(state_); }
  [[nodiscard]] version clock() const override { return state_.clock.now(); }

 private:
  static void configure(DB_ENV* environment) {
    constexpr u_int32_t mebibyte = 1 << 20;
    check(environment->set_cachesize(environment, 4, 0, 1));
    check(environment->set_lg_bsize(environment, 16 * mebibyte));
    check(environment->set_lg_max(environment, 256 * mebibyte));
    check(environment->set_flags(environment, DB_TXN_WRITE_NOSYNC, 1));
    check(environment->log_set_config(environment, DB_LOG_AUTO_REMOVE, 1));
    check(environment->set_lk_detect(environment, DB_LOCK_DEFAULT));
    check(environment->set_lk_max_lockers(environment, 10'000));
    check(environment->set_lk_max_locks(environment, 100'000));
    check(environment->set_lk_max_objects(environment, 100'000));
    check(environment->set_tx_max(environment, 1'000));
  }

  berkeley_db_state state_;
};

}  // namespace

std::vector<store_kind> berkeley_db_kinds() {
  return {
      {.name = "BerkeleyDB",
       .configuration = std::string(db_version(nullptr, nullptr, nullptr)) +
                        ". Keys followed by inverted versions in a B-tree; a transaction an operation, its log written "
                        "without sync, checkpoint every GiB of log, private cache of 4 GiB, bulk extraction.",
       .survives_kill = true,
       .parallel_extract = false,
       .open = [](const opening& how) { return std::make_unique<berkeley_db_store>(how); }}};
}

}  // namespace icecore::bench
