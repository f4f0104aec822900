// RocksDB with user-defined timestamps, its own multi-versioning: a version is a timestamp of eight bytes.
//
// find is Get at a timestamp, history an iterator from iter_start_ts on, extract an iterator at a timestamp. MultiGet
// takes one timestamp for all keys, so find_many uses it for a single version, and Get otherwise. In the suite `query`
// an iterator at a timestamp goes over all pairs, and each number is tested where it lies.
#include <rocksdb/comparator.h>
#include <rocksdb/db.h>
#include <rocksdb/perf_level.h>
#include <rocksdb/version.h>

#include <algorithm>

#include "composite_key.hpp"
#include "filtered.hpp"
#include "kinds.hpp"
#include "rocksdb_options.hpp"

namespace icecore::bench {
namespace {

void check(const rocksdb::Status& status) {
  if (!status.ok()) throw std::runtime_error("RocksDB: " + status.ToString());
}

rocksdb::Slice slice_of(std::string_view bytes) { return {bytes.data(), bytes.size()}; }
std::string_view view_of(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

/// A version as the bytes of a timestamp.
class timestamp {
 public:
  explicit timestamp(version at) { std::memcpy(bytes_.data(), &at, sizeof(at)); }
  [[nodiscard]] rocksdb::Slice slice() const { return {bytes_.data(), bytes_.size()}; }
  [[nodiscard]] static version of(const rocksdb::Slice& bytes) { return number_of(view_of(bytes)); }

 private:
  std::array<char, sizeof(version)> bytes_;
};

/// Keys as bytes, then newest first. RocksDB 7.8 has such a comparator, but not in its public headers.
class key_then_newest final : public rocksdb::Comparator {
 public:
  key_then_newest() : Comparator(sizeof(version)) {}

  [[nodiscard]] const char* Name() const override { return "icecore.bench.key_then_newest"; }
  [[nodiscard]] int Compare(const rocksdb::Slice& a, const rocksdb::Slice& b) const override {
    const int keys = without(a).compare(without(b));
    return keys != 0 ? keys : -CompareTimestamp(stamp(a), stamp(b));
  }
  [[nodiscard]] int CompareTimestamp(const rocksdb::Slice& a, const rocksdb::Slice& b) const override {
    const version left = timestamp::of(a);
    const version right = timestamp::of(b);
    return left < right ? -1 : left > right ? 1 : 0;
  }
  using Comparator::CompareWithoutTimestamp;
  [[nodiscard]] int CompareWithoutTimestamp(const rocksdb::Slice& a, bool a_has_timestamp, const rocksdb::Slice& b,
                                            bool b_has_timestamp) const override {
    return (a_has_timestamp ? without(a) : a).compare(b_has_timestamp ? without(b) : b);
  }
  void FindShortestSeparator(std::string*, const rocksdb::Slice&) const override {
  }  // a longer separator is correct too
  void FindShortSuccessor(std::string*) const override {}

 private:
  static rocksdb::Slice without(const rocksdb::Slice& key) { return {key.data(), key.size() - sizeof(version)}; }
  static rocksdb::Slice stamp(const rocksdb::Slice& key) {
    return {key.data() + key.size() - sizeof(version), sizeof(version)};
  }
};

struct rocksdb_state {
  version_clock clock;
  std::unique_ptr<rocksdb::DB> database;
};

class rocksdb_session final : public session {
 public:
  explicit rocksdb_session(rocksdb_state& state) : state_(state), database_(*state.database) {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);  // this thread's counters cost a tenth of a find
  }

  version insert(std::string_view key, std::string_view value) override {
    require_not_empty(value);
    const version at = state_.clock.now();
    check(database_.Put({}, slice_of(key), timestamp(at).slice(), slice_of(value)));
    return at;
  }
  version remove(std::string_view key) override {
    const version at = state_.clock.now();
    check(database_.Delete({}, slice_of(key), timestamp(at).slice()));
    return at;
  }
  void tag() override { state_.clock.tag(); }

  std::optional<std::string_view> find(std::string_view key, version at) override {
    const timestamp newest(at);
    const rocksdb::Slice newest_slice = newest.slice();
    value_.Reset();
    const auto status = database_.Get(reading(newest_slice), database_.DefaultColumnFamily(), slice_of(key), &value_);
    if (status.IsNotFound()) return std::nullopt;
    check(status);
    return view_of(value_);
  }

  void find_many(std::span<const std::string_view> keys, std::span<const version> at,
                 std::span<std::optional<std::uint64_t>> out) override {
    const bool one_version = std::ranges::adjacent_find(at, std::not_equal_to{}) == at.end();
    if (keys.empty() || !one_version) return session::find_many(keys, at, out);
    const timestamp newest(at.front());
    const rocksdb::Slice newest_slice = newest.slice();
    many_keys_.clear();
    for (const std::string_view key : keys) many_keys_.push_back(slice_of(key));
    many_values_.resize(keys.size());
    for (rocksdb::PinnableSlice& value : many_values_) value.Reset();
    many_statuses_.resize(keys.size());
    database_.MultiGet(reading(newest_slice), database_.DefaultColumnFamily(), keys.size(), many_keys_.data(),
                       many_values_.data(), many_statuses_.data());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (!many_statuses_[i].IsNotFound()) check(many_statuses_[i]);
      out[i] = many_statuses_[i].ok() ? std::optional(number_of(view_of(many_values_[i]))) : std::nullopt;
    }
  }

  void history(std::string_view key, std::vector<recorded_change>& out) override {
    const timestamp oldest(0), newest(~version{0});
    const rocksdb::Slice oldest_slice = oldest.slice(), newest_slice = newest.slice();
    rocksdb::ReadOptions options = reading(newest_slice);
    options.iter_start_ts = &oldest_slice;
    const std::size_t already = out.size();
    const std::unique_ptr<rocksdb::Iterator> change(database_.NewIterator(options));
    for (change->Seek(slice_of(key)); change->Valid() && is_change_of(key, *change); change->Next()) {
      const version at = timestamp::of(change->timestamp());
      // A key that was written twice in a version appears twice, the last write first.
      if (out.size() > already && out.back().version == at) continue;
      const std::string_view value = view_of(change->value());
      out.push_back({at, value.empty() ? std::nullopt : std::optional(number_of(value))});
    }
    check(change->status());
  }

  void extract(version at, pair_columns& out, unsigned) override {
    const timestamp newest(at);
    const rocksdb::Slice newest_slice = newest.slice();
    rocksdb::ReadOptions options = reading(newest_slice);
    options.readahead_size = 2 << 20;
    const std::unique_ptr<rocksdb::Iterator> pair(database_.NewIterator(options));
    for (pair->SeekToFirst(); pair->Valid(); pair->Next()) out.add(view_of(pair->key()), view_of(pair->value()));
    check(pair->status());
  }

 private:
  [[nodiscard]] static rocksdb::ReadOptions reading(const rocksdb::Slice& newest) {
    rocksdb::ReadOptions options;
    options.timestamp = &newest;
    options.verify_checksums = false;  // blocks are read repeatedly from mapped memory; LevelDB's default
    return options;
  }

  /// An iterator with iter_start_ts shows keys in the internal form: key, timestamp, sequence number and type.
  [[nodiscard]] static bool is_change_of(std::string_view key, const rocksdb::Iterator& change) {
    const std::string_view internal = view_of(change.key());
    return internal.size() == key.size() + 2 * sizeof(std::uint64_t) && internal.starts_with(key);
  }

  rocksdb_state& state_;
  rocksdb::DB& database_;
  rocksdb::PinnableSlice value_;
  std::vector<rocksdb::Slice> many_keys_;
  std::vector<rocksdb::PinnableSlice> many_values_;
  std::vector<rocksdb::Status> many_statuses_;
};

rocksdb::Options options_for(const opening& how) {
  static const key_then_newest order;
  rocksdb::Options options = rocksdb_options(how);
  options.comparator = &order;
  return options;
}

std::unique_ptr<rocksdb::DB> opened(const opening& how) {
  rocksdb::DB* database = nullptr;
  check(rocksdb::DB::Open(options_for(how), how.folder.string(), &database));
  return std::unique_ptr<rocksdb::DB>(database);
}

class rocksdb_store final : public store {
 public:
  explicit rocksdb_store(const opening& how) { state_.database = opened(how); }

  std::unique_ptr<session> new_session() override { return std::make_unique<rocksdb_session>(state_); }
  [[nodiscard]] version clock() const override { return state_.clock.now(); }

 private:
  rocksdb_state state_;
};

class rocksdb_filtered final : public filtered_store {
 public:
  explicit rocksdb_filtered(const opening& how) : database_(opened(how)) {}

  void load(std::span<const filtered_pair> pairs) override {
    const timestamp at(clock_);
    rocksdb::WriteOptions unlogged;
    unlogged.disableWAL = true;  // it is flushed below
    for (const filtered_pair& p : pairs) {
      const auto key = p.key_bytes();
      check(database_->Put(unlogged, slice_of(text_of(key)), at.slice(), slice_of(bytes_of(p.number))));
    }
    check(database_->Flush({}));
    ++clock_;
  }

  void find_below(std::int64_t below, unsigned, std::string& keys) override {
    keys.clear();
    const timestamp newest(clock_ - 1);
    const rocksdb::Slice newest_slice = newest.slice();
    rocksdb::ReadOptions options;
    options.timestamp = &newest_slice;
    options.verify_checksums = false;
    options.readahead_size = 2 << 20;
    const std::unique_ptr<rocksdb::Iterator> pair(database_->NewIterator(options));
    for (pair->SeekToFirst(); pair->Valid(); pair->Next()) {
      if (signed_number_of(view_of(pair->value())) < below) keys.append(view_of(pair->key()));
    }
    check(pair->status());
  }

 private:
  version clock_ = 1;
  std::unique_ptr<rocksdb::DB> database_;
};

}  // namespace

std::vector<store_kind> rocksdb_kinds() {
  return {{.name = "RocksDB",
           .configuration =
               "RocksDB " + ROCKSDB_NAMESPACE::GetRocksVersionAsString() +
               ". User-defined timestamps as versions; pipelined write-ahead log without sync, no compression, write "
               "buffers of 64 MiB, block cache of 2 GiB, bloom filter, mapped files.",
           .survives_kill = true,
           .parallel_extract = false,
           .open = [](const opening& how) { return std::make_unique<rocksdb_store>(how); }},
          {.name = "RocksDB-versions",
           .configuration = "As RocksDB, flushed to sorted files; an iterator at a timestamp",
           .survives_kill = true,
           .parallel_extract = false,
           .open_filtered = [](const opening& how) { return std::make_unique<rocksdb_filtered>(how); }}};
}

}  // namespace icecore::bench
