// Extracting all pairs of a cluster's snapshot, as columns or as a stream, and the find that asks all ranks.
#include <cstdint>
#include <memory>
#include <utility>

#include "cluster_support.hpp"
#include "opening.hpp"

namespace {

using namespace icecore::c;

icecore_extraction_options default_extraction_options() noexcept {
  const icecore::extraction_options usual;
  icecore_extraction_options defaults{};
  defaults.struct_size = sizeof(defaults);
  defaults.root = usual.root;
  defaults.threads = usual.threads;
  defaults.memory_bytes_max = usual.memory_bytes_max;
  return defaults;
}

icecore::key_bounds bounds_of(const icecore_extraction_options& set, const char* function) {
  auto between = bounds(set.from.data, set.from.size, set.to.data, set.to.size, function);
  if (set.prefix.data == nullptr && set.prefix.size == 0) return between;
  if (between.from || between.to) {
    throw icecore::error(icecore::errc::invalid_argument,
                         std::string(function) + ": prefix is set together with from or to; set one or the other");
  }
  return icecore::key_bounds::of_prefix(view(set.prefix.data, set.prefix.size, function, "prefix"));
}

icecore::extraction_options extraction_options_of(const icecore_extraction_options* given, const char* function) {
  const icecore_extraction_options defaults = default_extraction_options();
  const icecore_extraction_options set = given == nullptr ? defaults : read_structure(given, defaults, function);
  icecore::extraction_options how;
  how.root = set.root;
  how.bounds = bounds_of(set, function);
  how.threads = set.threads;
  how.linear_scan = set.linear_scan != 0;
  how.memory_bytes_max = set.memory_bytes_max;
  return how;
}

/// The extracted columns, and the offsets of a column that came without them.
struct extracted_columns {
  icecore::extracted_pairs pairs;
  std::vector<std::uint64_t> key_offsets;
  std::vector<std::uint64_t> value_offsets;
};

const std::uint64_t* offsets_of(const icecore::extracted_pairs::column& column, std::size_t count,
                                std::vector<std::uint64_t>& made) {
  if (!column.offsets.empty()) return column.offsets.data();
  made.resize(count + 1);
  for (std::size_t i = 0; i <= count; ++i) made[i] = i * column.width;
  return made.data();
}

owned_columns* handed_out(icecore::extracted_pairs extracted) {
  const auto kept = std::make_shared<extracted_columns>();
  kept->pairs = std::move(extracted);
  const auto& keys = kept->pairs.keys();
  const auto& values = kept->pairs.values();
  const std::size_t count = kept->pairs.size();
  return new owned_columns{{count, offsets_of(keys, count, kept->key_offsets), keys.bytes.data(),
                            offsets_of(values, count, kept->value_offsets), values.bytes.data()},
                           kept};
}

/// Passes blocks of pairs to the caller's function.
icecore::extraction_sink sink_of(icecore_extraction_sink sink, void* context) {
  return [sink, context, keys = std::vector<icecore_bytes>(),
          values = std::vector<icecore_bytes>()](std::span<const icecore::item> some) mutable {
    keys.clear();
    values.clear();
    for (const icecore::item& pair : some) {
      keys.push_back(bytes(pair.key));
      values.push_back(bytes(pair.value));
    }
    if (sink(context, some.size(), keys.data(), values.data()) == 0) return;
    // exists only in C, like the negative codes: it reaches the other ranks unchanged
    throw icecore::error(static_cast<icecore::errc>(ICECORE_STOPPED), "the sink of a stream asked to stop");
  };
}

}  // namespace

extern "C" {

void icecore_extraction_options_init(icecore_extraction_options* options, size_t struct_size) {
  initialise(options, struct_size, default_extraction_options());
}

int icecore_cluster_snapshot_columns(const icecore_cluster_snapshot* snapshot, int method,
                                     const icecore_extraction_options* options, icecore_columns** columns) {
  if (columns != nullptr) *columns = nullptr;
  return guarded([&] {
    constexpr const char* function = "icecore_cluster_snapshot_columns";
    require(snapshot, function, "snapshot");
    require(columns, function, "columns");
    const auto asked = enumerator(method, icecore::extraction_method::gather, icecore::extraction_method::distributed,
                                  function, "method");
    *columns = handed_out(snapshot->snapshot.extract(asked, extraction_options_of(options, function)));
  });
}

int icecore_cluster_snapshot_stream(const icecore_cluster_snapshot* snapshot, icecore_extraction_sink sink,
                                    void* context, const icecore_extraction_options* options) {
  return guarded([&] {
    constexpr const char* function = "icecore_cluster_snapshot_stream";
    require(snapshot, function, "snapshot");
    if (sink == nullptr) throw_null(function, "sink");
    snapshot->snapshot.stream(sink_of(sink, context), extraction_options_of(options, function));
  });
}

int icecore_cluster_snapshot_find_by_broadcast(const icecore_cluster_snapshot* snapshot, const void* key,
                                               size_t key_size, int root, icecore_bytes* value) {
  if (value != nullptr) *value = {nullptr, 0};
  return guarded([&] {
    constexpr const char* function = "icecore_cluster_snapshot_find_by_broadcast";
    require(snapshot, function, "snapshot");
    require(value, function, "value");
    // report an impossible key only after the call, because the other ranks are in it
    const std::string_view asked =
        key == nullptr ? std::string_view() : std::string_view(static_cast<const char*>(key), key_size);
    const std::optional<std::string> found = snapshot->snapshot.find_by_broadcast(asked, root);
    static_cast<void>(view(key, key_size, function, "key"));
    *value = copy_of(found);
  });
}

}  // extern "C"
