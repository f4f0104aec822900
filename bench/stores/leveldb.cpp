// LevelDB: composite keys in a log-structured merge tree.
//
// LevelDB reads in order with an iterator, which shows the state at the time when it was made. A session keeps its
// iterator until something is written, because making one costs more than a seek.
//
// No bloom filter: only Get() uses it, and only a seek can find the newest change before a version.
#include <fmt/format.h>
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/options.h>

#include "composite_session.hpp"
#include "kinds.hpp"

namespace icecore::bench {
namespace {

void check(const leveldb::Status& status) {
  if (!status.ok()) throw std::runtime_error("LevelDB: " + status.ToString());
}

leveldb::Slice slice_of(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view view_of(const leveldb::Slice& slice) { return {slice.data(), slice.size()}; }

class iterator_cursor {
 public:
  explicit iterator_cursor(leveldb::Iterator* iterator) : iterator_(iterator) {}

  bool seek_first() {
    iterator_->SeekToFirst();
    return there();
  }
  bool seek(std::string_view composite) {
    iterator_->Seek(slice_of(composite));
    return there();
  }
  bool next() {
    iterator_->Next();
    return there();
  }
  [[nodiscard]] std::string_view key() const { return view_of(iterator_->key()); }
  [[nodiscard]] std::string_view value() const { return view_of(iterator_->value()); }

 private:
  [[nodiscard]] bool there() const {
    if (iterator_->Valid()) return true;
    check(iterator_->status());
    return false;
  }

  std::unique_ptr<leveldb::Iterator> iterator_;
};

struct leveldb_state : composite_state {
  std::unique_ptr<leveldb::Cache> cache;  // must live longer than the database
  std::unique_ptr<leveldb::DB> database;
  std::atomic<std::uint64_t> writes{0};  // completed writes, which readers must see: release after, acquire before
};

class leveldb_session final : public composite_session {
 public:
  explicit leveldb_session(leveldb_state& state) : composite_session(state), state_(state) {}

  std::optional<std::string_view> find(std::string_view key, version at) override { return find_at(cursor(), key, at); }
  void history(std::string_view key, std::vector<recorded_change>& out) override { append_history(cursor(), key, out); }
  void extract(version at, pair_columns& out, unsigned) override { extract_at(cursor(), at, out); }

 private:
  void put(std::string_view composite, std::string_view value) override {
    cursor_.reset();  // it would keep old memory and files alive
    check(state_.database->Put({}, slice_of(composite), slice_of(value)));
    state_.writes.fetch_add(1, std::memory_order_release);
  }

  iterator_cursor& cursor() {
    const std::uint64_t writes = state_.writes.load(std::memory_order_acquire);
    if (!cursor_ || writes != writes_seen_) {
      cursor_.emplace(state_.database->NewIterator({}));
      writes_seen_ = writes;
    }
    return *cursor_;
  }

  leveldb_state& state_;
  std::optional<iterator_cursor> cursor_;
  std::uint64_t writes_seen_ = 0;
};

class leveldb_store final : public store {
 public:
  explicit leveldb_store(const opening& how) {
    constexpr std::size_t mebibyte = 1 << 20;
    state_.cache.reset(leveldb::NewLRUCache(2048 * mebibyte));
    leveldb::Options options;
    options.create_if_missing = true;
    options.compression = leveldb::kNoCompression;
    options.block_cache = state_.cache.get();
    // "Larger values increase performance, especially during bulk loads" (leveldb/options.h).
    options.write_buffer_size = 64 * mebibyte;
    options.max_file_size = 32 * mebibyte;  // larger for larger databases, says the same header
    options.max_open_files = 10'000;
    leveldb::DB* database = nullptr;
    check(leveldb::DB::Open(options, how.folder.string(), &database));
    state_.database.reset(database);
  }

  std::unique_ptr<session> new_session() override { return std::make_unique<leveldb_session>(state_); }
  [[nodiscard]] version clock() const override { return state_.clock.now(); }

 private:
  leveldb_state state_;
};

}  // namespace

std::vector<store_kind> leveldb_kinds() {
  return {{.name = "LevelDB",
           .configuration = fmt::format("LevelDB {}.{}. ", leveldb::kMajorVersion, leveldb::kMinorVersion) +
                            "Keys followed by inverted versions; write-ahead log without sync, no compression, write "
                            "buffer of 64 MiB, block cache of 2 GiB; an iterator is kept while nobody writes.",
           .survives_kill = true,
           .parallel_extract = false,
           .open = [](const opening& how) { return std::make_unique<leveldb_store>(how); }}};
}

}  // namespace icecore::bench
