// Opening a cluster or restoring one, closing it, and writing its checkpoints.
#include "cluster_support.hpp"
#include "opening.hpp"

namespace {

using namespace icecore::c;

icecore_cluster_options default_cluster_options() noexcept {
  const icecore::cluster_options usual;
  icecore_cluster_options defaults{};
  defaults.struct_size = sizeof(defaults);
  defaults.consistency = static_cast<int>(usual.consistency);
  defaults.group_size = usual.group_size;
  defaults.staging_bytes = usual.staging_bytes;
  defaults.cache_bytes = usual.cache_bytes;
  defaults.progress_thread = usual.progress_thread ? 1 : 0;
  return defaults;
}

icecore::ownership by_function(const icecore_cluster_options& set, const char* function) {
  require(set.owner_name, function, "owner_name");
  if (set.owner == nullptr) throw_null(function, "owner");
  return icecore::ownership::by_function(
      set.owner_name, [owner = set.owner, context = set.owner_context](std::string_view key, int ranks) {
        return owner(context, key.data(), key.size(), ranks);
      });
}

icecore::ownership by_ranges(const icecore_cluster_options& set, const char* function) {
  std::vector<std::string> splits;
  for (const std::string_view split : views(set.split_count, set.splits, function, "splits"))
    splits.emplace_back(split);
  return icecore::ownership::by_ranges(std::move(splits));
}

icecore::ownership ownership_of(const icecore_cluster_options& set, const char* function) {
  switch (set.ownership) {
    case ICECORE_OWNERSHIP_BY_HASH:
      return icecore::ownership::by_hash();
    case ICECORE_OWNERSHIP_BY_FUNCTION:
      return by_function(set, function);
    case ICECORE_OWNERSHIP_BY_RANGES:
      return by_ranges(set, function);
    default:
      throw icecore::error(icecore::errc::invalid_argument, std::string(function) + ": ownership is " +
                                                                std::to_string(set.ownership) + "; it must be 0 to 2");
  }
}

icecore::cluster_options cluster_options_of(const icecore_cluster_options* given, const char* function) {
  const icecore_cluster_options defaults = default_cluster_options();
  const icecore_cluster_options set = given == nullptr ? defaults : read_structure(given, defaults, function);
  icecore::cluster_options opening;
  opening.store = options_of(set.store, function);
  opening.ownership = ownership_of(set, function);
  opening.consistency = enumerator(set.consistency, icecore::consistency::relaxed, icecore::consistency::sequential,
                                   function, "consistency");
  opening.group_size = set.group_size;
  opening.staging_bytes = set.staging_bytes;
  opening.cache_bytes = set.cache_bytes;
  opening.progress_thread = set.progress_thread != 0;
  return opening;
}

void hand_out(icecore::cluster opened, icecore_cluster** cluster) {
  std::string folder = opened.path().native();
  *cluster = new icecore_cluster{std::move(opened), std::move(folder)};
}

}  // namespace

struct icecore_cluster_event {
  icecore::checkpoint_event event;
};

extern "C" {

void icecore_cluster_options_init(icecore_cluster_options* options, size_t struct_size) {
  initialise(options, struct_size, default_cluster_options());
}

int icecore_cluster_open(MPI_Comm comm, const char* path, const icecore_cluster_options* options,
                         icecore_cluster** cluster) {
  if (cluster != nullptr) *cluster = nullptr;
  return guarded([&] {
    require(path, "icecore_cluster_open", "path");
    require(cluster, "icecore_cluster_open", "cluster");
    hand_out(icecore::cluster(comm, path, cluster_options_of(options, "icecore_cluster_open")), cluster);
  });
}

int icecore_cluster_open_f(MPI_Fint comm, const char* path, const icecore_cluster_options* options,
                           icecore_cluster** cluster) {
  return icecore_cluster_open(MPI_Comm_f2c(comm), path, options, cluster);
}

int icecore_cluster_close(icecore_cluster* cluster) {
  if (cluster == nullptr) return ICECORE_OK;
  const int code = guarded([&] { cluster->cluster.close(); });
  delete cluster;
  return code;
}

int icecore_cluster_checkpoint(icecore_cluster* cluster, const char* folder, icecore_cluster_event** event) {
  if (event != nullptr) *event = nullptr;
  return guarded([&] {
    require(cluster, "icecore_cluster_checkpoint", "cluster");
    require(folder, "icecore_cluster_checkpoint", "folder");
    icecore::checkpoint_event writing = cluster->cluster.checkpoint(folder);
    if (event == nullptr) return writing.wait();
    *event = new icecore_cluster_event{std::move(writing)};
  });
}

int icecore_cluster_event_done(const icecore_cluster_event* event, int* done) {
  if (done != nullptr) *done = 0;
  return guarded([&] {
    require(event, "icecore_cluster_event_done", "event");
    require(done, "icecore_cluster_event_done", "done");
    *done = event->event.done() ? 1 : 0;
  });
}

int icecore_cluster_event_wait(const icecore_cluster_event* event) {
  return guarded([&] {
    require(event, "icecore_cluster_event_wait", "event");
    event->event.wait();
  });
}

int icecore_cluster_event_progress(const icecore_cluster_event* event, uint64_t* bytes_done, uint64_t* bytes_total) {
  if (bytes_done != nullptr) *bytes_done = 0;
  if (bytes_total != nullptr) *bytes_total = 0;
  return guarded([&] {
    require(event, "icecore_cluster_event_progress", "event");
    require(bytes_done, "icecore_cluster_event_progress", "bytes_done");
    require(bytes_total, "icecore_cluster_event_progress", "bytes_total");
    const icecore::progress now = event->event.progress();
    *bytes_done = now.done;
    *bytes_total = now.total;
  });
}

void icecore_cluster_event_free(icecore_cluster_event* event) { delete event; }

void icecore_checkpoint_source_init(icecore_checkpoint_source* source, size_t struct_size) {
  initialise(source, struct_size, icecore_checkpoint_source{});
}

int icecore_cluster_restore(MPI_Comm comm, const icecore_checkpoint_source* from, const char* path,
                            const icecore_cluster_options* options, icecore_cluster** cluster) {
  if (cluster != nullptr) *cluster = nullptr;
  return guarded([&] {
    constexpr const char* function = "icecore_cluster_restore";
    const icecore_checkpoint_source set = read_structure(from, icecore_checkpoint_source{}, function);
    require(set.folder, function, "folder");
    require(path, function, "path");
    require(cluster, function, "cluster");
    const icecore::checkpoint_source source{set.folder, set.redistribute != 0};
    hand_out(icecore::cluster::restore(comm, source, path, cluster_options_of(options, function)), cluster);
  });
}

int icecore_cluster_restore_f(MPI_Fint comm, const icecore_checkpoint_source* from, const char* path,
                              const icecore_cluster_options* options, icecore_cluster** cluster) {
  return icecore_cluster_restore(MPI_Comm_f2c(comm), from, path, options, cluster);
}

}  // extern "C"
