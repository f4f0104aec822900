// WiredTiger: composite keys in a row store, a B-tree with a cache of its own and a log.
#include <wiredtiger.h>

#include <algorithm>

#include "composite_session.hpp"
#include "kinds.hpp"

namespace icecore::bench {
namespace {

void check(int code) {
  if (code != 0) throw std::runtime_error(std::string("WiredTiger: ") + wiredtiger_strerror(code));
}

struct connection_closer {
  void operator()(WT_CONNECTION* connection) const { connection->close(connection, nullptr); }
};
struct session_closer {
  void operator()(WT_SESSION* session) const { session->close(session, nullptr); }
};
using connection = std::unique_ptr<WT_CONNECTION, connection_closer>;
using wiredtiger_handle = std::unique_ptr<WT_SESSION, session_closer>;

constexpr const char* table_name = "file:changes.wt";

wiredtiger_handle open_handle(const connection& of) {
  WT_SESSION* opened = nullptr;
  check(of->open_session(of.get(), nullptr, nullptr, &opened));
  return wiredtiger_handle(opened);
}

WT_ITEM item_of(std::string_view bytes) {
  WT_ITEM item{};
  item.data = bytes.data();
  item.size = bytes.size();
  return item;
}
std::string_view view_of(const WT_ITEM& item) { return {static_cast<const char*>(item.data), item.size}; }

/// The table's cursor of a session; closing the session closes it.
class table_cursor {
 public:
  explicit table_cursor(WT_SESSION* session) {
    check(session->open_cursor(session, table_name, nullptr, "overwrite=true", &cursor_));
  }

  /// If a write conflicts with an eviction, or with a transaction with too old a snapshot, tries again, which then
  /// succeeds.
  void put(std::string_view composite, std::string_view value) {
    const WT_ITEM key_item = item_of(composite), value_item = item_of(value);
    int code = WT_ROLLBACK;
    while (code == WT_ROLLBACK) {
      cursor_->set_key(cursor_, &key_item);
      cursor_->set_value(cursor_, &value_item);
      code = cursor_->insert(cursor_);
    }
    check(code);
  }

  /// Releases the cursor's page; the manual asks for this soon, because the page cannot be evicted before.
  void reset() { check(cursor_->reset(cursor_)); }

  bool seek_first() {
    reset();
    return next();
  }
  bool seek(std::string_view composite) {
    const WT_ITEM key_item = item_of(composite);
    int order = 0;
    int code = WT_ROLLBACK;
    while (code == WT_ROLLBACK) {
      cursor_->set_key(cursor_, &key_item);
      code = cursor_->search_near(cursor_, &order);
    }
    if (code != WT_NOTFOUND && order < 0) return next();
    return there(code);
  }
  bool next() { return there(cursor_->next(cursor_)); }
  [[nodiscard]] std::string_view key() const {
    WT_ITEM item{};
    check(cursor_->get_key(cursor_, &item));
    return view_of(item);
  }
  [[nodiscard]] std::string_view value() const {
    WT_ITEM item{};
    check(cursor_->get_value(cursor_, &item));
    return view_of(item);
  }

 private:
  static bool there(int code) {
    if (code == WT_NOTFOUND) return false;
    check(code);
    return true;
  }

  WT_CURSOR* cursor_ = nullptr;
};

struct wiredtiger_state : composite_state {
  bench::connection connection;
};

class wiredtiger_session final : public composite_session {
 public:
  explicit wiredtiger_session(wiredtiger_state& state)
      : composite_session(state), handle_(open_handle(state.connection)), cursor_(handle_.get()) {}

  std::optional<std::string_view> find(std::string_view key, version at) override { return find_at(cursor_, key, at); }
  void history(std::string_view key, std::vector<recorded_change>& out) override {
    append_history(cursor_, key, out);
    cursor_.reset();
  }
  void extract(version at, pair_columns& out, unsigned) override {
    extract_at(cursor_, at, out);
    cursor_.reset();
  }

 private:
  /// Passes the log record to the operating system without a sync, so it survives a kill. transaction_sync with
  /// method=none promises the same, but lets concurrent commits wait for each other until a timeout: with 8 threads it
  /// was 20 times slower.
  void put(std::string_view composite, std::string_view value) override {
    cursor_.put(composite, value);
    check(handle_->log_flush(handle_.get(), "sync=off"));
  }

  wiredtiger_handle handle_;
  table_cursor cursor_;
};

class wiredtiger_store final : public store {
 public:
  explicit wiredtiger_store(const opening& how) {
    // Checkpoints limit the log, as in a database in real use.
    const std::string configuration =
        "create,cache_size=8GB,session_max=" + std::to_string(how.threads + 256) +
        ",log=(enabled=true,file_max=256MB),transaction_sync=(enabled=false),checkpoint=(log_size=1GB),"
        "eviction=(threads_min=1,threads_max=4),statistics=(none)";
    WT_CONNECTION* opened = nullptr;
    check(wiredtiger_open(how.folder.c_str(), nullptr, configuration.c_str(), &opened));
    state_.connection.reset(opened);
    const wiredtiger_handle creating = open_handle(state_.connection);
    check(creating->create(creating.get(), table_name, "key_format=u,value_format=u,memory_page_max=10MB"));
  }

  std::unique_ptr<session> new_session() override { return std::make_unique<wiredtiger_session>(state_); }
  [[nodiscard]] version clock() const override { return state_.clock.now(); }

 private:
  wiredtiger_state state_;
};

}  // namespace

std::vector<store_kind> wiredtiger_kinds() {
  return {
      {.name = "WiredTiger",
       .configuration = std::string(wiredtiger_version(nullptr, nullptr, nullptr)) +
                        ". Keys followed by inverted versions; log written at each operation without sync, checkpoint "
                        "every GB of log, cache of 8 GB, a session and a cursor a thread.",
       .survives_kill = true,
       .parallel_extract = false,
       .open = [](const opening& how) { return std::make_unique<wiredtiger_store>(how); }}};
}

}  // namespace icecore::bench
