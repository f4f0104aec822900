// RocksDB as a map: its plain use, puts and gets without timestamps. The write-ahead log is on.
//
// With sync each write calls fdatasync on the log; on a file system in memory this is just a system call. Without sync,
// a write survives a kill of the process, but not a loss of power.
#include <rocksdb/db.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/version.h>

#include "kinds.hpp"
#include "map.hpp"
#include "rocksdb_options.hpp"

namespace icecore::bench {
namespace {

void check(const rocksdb::Status& status) {
  if (!status.ok()) throw std::runtime_error("RocksDB: " + status.ToString());
}

rocksdb::Slice slice_of(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view view_of(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

class rocksdb_map_session final : public map_session {
 public:
  rocksdb_map_session(rocksdb::DB& database, bool syncs) : database_(database) {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);  // this thread's counters cost a tenth of a find
    writing_.sync = syncs;
    reading_.verify_checksums = false;  // blocks are read repeatedly from mapped memory; LevelDB's default
  }

  void insert(std::string_view key, std::string_view value) override { put(key, value); }
  void update(std::string_view key, std::string_view value) override { put(key, value); }

  std::optional<std::string_view> read(std::string_view key) override {
    value_.Reset();
    const auto status = database_.Get(reading_, database_.DefaultColumnFamily(), slice_of(key), &value_);
    if (status.IsNotFound()) return std::nullopt;
    check(status);
    return view_of(value_);
  }

  void scan(std::string_view from, std::size_t count, pair_columns& out) override {
    const std::unique_ptr<rocksdb::Iterator> pair(database_.NewIterator(reading_));
    for (pair->Seek(slice_of(from)); pair->Valid() && out.count() < count; pair->Next()) {
      out.add(view_of(pair->key()), view_of(pair->value()));
    }
    check(pair->status());
  }

 private:
  void put(std::string_view key, std::string_view value) {
    check(database_.Put(writing_, slice_of(key), slice_of(value)));
  }

  rocksdb::DB& database_;
  rocksdb::WriteOptions writing_;
  rocksdb::ReadOptions reading_;
  rocksdb::PinnableSlice value_;
};

class rocksdb_map final : public map {
 public:
  rocksdb_map(const opening& how, bool syncs) : syncs_(syncs) {
    rocksdb::DB* database = nullptr;
    check(rocksdb::DB::Open(rocksdb_options(how), how.folder.string(), &database));
    database_.reset(database);
  }

  std::unique_ptr<map_session> new_session() override {
    return std::make_unique<rocksdb_map_session>(*database_, syncs_);
  }
  void settle() override {
    check(database_->Flush({}));
    check(database_->CompactRange({}, nullptr, nullptr));
  }

 private:
  bool syncs_;
  std::unique_ptr<rocksdb::DB> database_;
};

store_kind kind_of(std::string name, bool syncs) {
  return {
      .name = std::move(name),
      .configuration = "RocksDB " + ROCKSDB_NAMESPACE::GetRocksVersionAsString() + ". Pipelined write-ahead log " +
                       (syncs ? "synced by each write" : "without sync") +
                       ", no compression, write buffers of 64 MiB, block cache of 2 GiB, bloom filter, mapped files.",
      .survives_kill = true,
      .parallel_extract = false,
      .open_map = [syncs](const opening& how) { return std::make_unique<rocksdb_map>(how, syncs); }};
}

}  // namespace

std::vector<store_kind> rocksdb_map_kinds() {
  return {kind_of("RocksDB-nosync", false), kind_of("RocksDB-sync", true)};
}

}  // namespace icecore::bench
