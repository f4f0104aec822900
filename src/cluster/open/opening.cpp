// Opening: every rank takes every step, and learns in each whether all ranks succeeded.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "cluster/cluster_core.hpp"
#include "cluster/open/lost_versions.hpp"
#include "cluster/partitions/attached_partition.hpp"
#include "cluster/partitions/remote_partition.hpp"

namespace icecore::mpi {
namespace {

/// The folder of what the ranks of a node share.
constexpr const char* memory_folder = "/dev/shm";

/// The size of a storage group from the options or, if they do not give it, from the environment.
int group_size_of(const cluster_options& opening) {
  const char* const setting = std::getenv("ICECORE_GROUP_SIZE");
  if (opening.group_size != 0 || setting == nullptr || *setting == '\0') return opening.group_size;
  int size = 0;
  const char* const end = setting + std::strlen(setting);
  const auto read = std::from_chars(setting, end, size);
  if (read.ec == std::errc() && read.ptr == end && size >= 0) return size;
  throw error(errc::invalid_argument,
              fmt::format("ICECORE_GROUP_SIZE is '{}'; it must be a number of ranks, 0 or more", setting));
}

/// A number that two ranks share only if these options are equal (or by a rare chance).
std::int64_t digest_of(const cluster_options& opening) {
  const std::string text =
      fmt::format("{} {} {} {} {} {}", opening.ownership.description(), static_cast<int>(opening.consistency),
                  group_size_of(opening), static_cast<int>(opening.store.access),
                  static_cast<int>(opening.store.creation), static_cast<int>(opening.store.durability));
  return static_cast<std::int64_t>(std::hash<std::string>{}(text) >> 1);
}

/// How a rank identifies the cluster's folder: by name and by inode.
struct folder_identity {
  std::uint64_t name = 0;
  std::uint64_t device = 0;
  std::uint64_t number = 0;  // 0: it does not exist
};

folder_identity identity_of(const std::filesystem::path& folder) {
  folder_identity known;
  std::error_code failure;
  const std::filesystem::path name = std::filesystem::weakly_canonical(folder, failure);
  known.name = std::hash<std::string>{}((failure ? folder : name).native());
  struct stat there {};
  if (::stat(folder.c_str(), &there) == 0) {
    known.device = there.st_dev;
    known.number = there.st_ino;
  }
  return known;
}

/// Containers of one node may use one name for different folders, and one folder may have several names.
bool same_folder(const folder_identity& one, const folder_identity& other) noexcept {
  const bool one_folder = one.number != 0 && one.number == other.number && one.device == other.device;
  return one_folder || one.name == other.name;
}

/// A pool that opening creates. It is removed if opening fails before a manifest names it.
class new_pool {
 public:
  new_pool(const std::filesystem::path& folder, int rank) : folder_(folder), path_(pool_path(folder, rank)) {
    std::error_code ignored;
    was_there_ = std::filesystem::exists(path_, ignored);
  }
  ~new_pool() {
    try {
      if (made_ && !has_manifest(folder_)) std::filesystem::remove(path_);
    } catch (const std::exception&) {  // the next opening uses an empty pool that stays
    }
  }
  new_pool(const new_pool&) = delete;
  new_pool& operator=(const new_pool&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] bool was_there() const noexcept { return was_there_; }
  /// This rank's store is open there. Only now is a file that did not exist before known to be this rank's: its lock
  /// prevents others from creating or opening it until it is removed.
  void opened() noexcept { made_ = !was_there_; }

 private:
  const std::filesystem::path folder_;
  const std::filesystem::path path_;
  bool was_there_ = false;
  bool made_ = false;
};

}  // namespace

cluster_core::cluster_core(MPI_Comm comm, std::filesystem::path path, const cluster_options& opening,
                           const restored_part* restored)
    : comm_(comm),
      path_(std::move(path)),
      ownership_(opening.ownership),
      consistency_(opening.consistency),
      messages_(comm_.get()),
      cache_(opening.cache_bytes),
      running_(
          messages_, [this](message&& request) { server_->answer(request); }, [this] { return run_background(); },
          !has_full_threads()),
      agree_(comm_.get(), running_) {
  check(MPI_Comm_rank(comm_.get(), &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(comm_.get(), &ranks_), "MPI_Comm_size");
  try {
    agree_.all([&] {
      agree_on_arguments(opening);
      find_groups(group_size_of(opening));
      check_folder();
      open_store(opening.store, agree_on_manifest(opening.store, restored != nullptr), restored);
      attach(opening.store);
      connect(opening);
    });
  } catch (...) {
    running_.stop_thread();
    part();
    throw;
  }
}

void cluster_core::agree_on_arguments(const cluster_options& opening) {
  const auto failure = attempt([&] {
    opening.ownership.check(ranks_);
    if (!opening.store.shared_as.empty() || opening.store.access == access::attached) {
      throw error(errc::invalid_argument,
                  "a cluster shares its stores itself: leave shared_as empty, and do not attach");
    }
    if (!opening.store.copy_of.empty()) {
      throw error(errc::invalid_argument, "a cluster is copied by checkpoint and restore: leave copy_of empty");
    }
    if (!opening.store.placements.empty()) {
      throw error(errc::invalid_argument, "the store of each rank of a cluster has one file: leave placements empty");
    }
    if (opening.store.deferred_durability) {
      throw error(errc::invalid_argument,
                  "a cluster shares its stores, and the durability of a shared store cannot be deferred: leave "
                  "deferred_durability false");
    }
    if (opening.store.compaction != compaction_mode::by_call) {
      throw error(errc::invalid_argument,
                  "the ranks of a cluster pack their stores at one instant: leave `compaction` by_call, and call the "
                  "cluster's compact()");
    }
    if (group_size_of(opening) < 0)
      throw error(errc::invalid_argument, "the size of a storage group must not be negative");
    const bool may_make =
        opening.store.access == access::read_write && opening.store.creation != creation::open_existing;
    if (may_make) make_folder(path_);
  });
  const agreed options = agree_.on(step::open_arguments, failure, failure ? 0 : digest_of(opening));
  if (options.least != options.greatest) {
    agree_.refuse(errc::invalid_argument,
                  fmt::format("{}: the ranks open the cluster with different options; all must give the same ones",
                              path_.native()));
  }
}

void cluster_core::find_groups(int group_size) {
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(comm_.get(), MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  int first = rank_;
  {
    const ranks::team here(node, waiting_in(running_));
    here.bcast(&first, sizeof first, 0);
  }
  MPI_Comm_free(&node);
  nodes_.resize(static_cast<std::size_t>(ranks_));
  agree_.gather(&first, sizeof first, nodes_.data());
  groups_ = nodes_;
  if (group_size > 0) {
    for (int r = 0; r < ranks_; ++r) groups_[static_cast<std::size_t>(r)] = r / group_size;
    return;
  }
  std::vector<int> firsts = groups_;
  std::sort(firsts.begin(), firsts.end());
  firsts.erase(std::unique(firsts.begin(), firsts.end()), firsts.end());
  for (int& group : groups_) {
    group = static_cast<int>(std::lower_bound(firsts.begin(), firsts.end(), group) - firsts.begin());
  }
}

bool cluster_core::shares_memory_with(int rank) const {
  const auto other = static_cast<std::size_t>(rank);
  const auto own = static_cast<std::size_t>(rank_);
  return groups_[other] == groups_[own] && nodes_[other] == nodes_[own];
}

bool cluster_core::shares_memory() const {
  for (int r = 0; r < ranks_; ++r) {
    if (r != rank_ && shares_memory_with(r)) return true;
  }
  return false;
}

void cluster_core::check_folder() {
  const folder_identity mine = identity_of(path_);
  std::vector<folder_identity> all(static_cast<std::size_t>(ranks_));
  agree_.gather(&mine, sizeof mine, all.data());
  const int first = nodes_[static_cast<std::size_t>(rank_)];
  agree_.on(step::open_folder, attempt([&] {
              if (same_folder(mine, all[static_cast<std::size_t>(first)])) return;
              throw error(errc::invalid_argument,
                          fmt::format("{}: rank {}, on the same node, opens the cluster in another folder: all ranks "
                                      "of a node must give the same one",
                                      path_.native(), first));
            }));
}

cluster_core::found_manifest cluster_core::agree_on_manifest(const options& opening, bool restores) const {
  found_manifest found;
  const auto failure = attempt([&] {
    found.here = read_manifest(path_);
    if (!found.here) {
      if (restores || !has_manifest(path_, manifest_of::checkpoint)) return;
      throw error(errc::other_cluster,
                  fmt::format("{}: holds a checkpoint, not a cluster: restore it into another folder", path_.native()));
    }
    if (opening.creation == creation::create_new) {
      throw error(errc::store_exists,
                  fmt::format("{}: a new cluster was asked for, but the folder already has one", path_.native()));
    }
    if (found.here->ranks != ranks_) {
      throw error(errc::other_cluster, fmt::format("{}: this cluster was made by {} ranks and is opened by {}: run "
                                                   "with {} ranks, or copy its contents to a new cluster",
                                                   path_.native(), found.here->ranks, ranks_, found.here->ranks));
    }
    if (found.here->owner != ownership_.description()) {
      throw error(errc::other_cluster,
                  fmt::format("{}: this cluster was made with ownership '{}' and is opened with '{}'; "
                              "open it with the one it was made with",
                              path_.native(), found.here->owner, ownership_.description()));
    }
  });
  const agreed there = agree_.on(step::open_manifest, failure, found.here ? 1 : 0);
  found.everywhere = there.least == 1;
  found.anywhere = there.greatest == 1;
  const bool may_make = opening.access == access::read_write && opening.creation != creation::open_existing;
  if (!found.anywhere && !may_make) {
    agree_.refuse(errc::no_such_store,
                  fmt::format("{}: no cluster there; to make one, open it for writing with creation "
                              "allowed",
                              path_.native()));
  }
  return found;
}

void cluster_core::open_store(const options& opening, const found_manifest& found, const restored_part* part) {
  std::optional<new_pool> pool;
  const auto failure = attempt([&] {
    pool.emplace(path_, rank_);
    if (found.everywhere && !pool->was_there()) {
      throw error(errc::other_cluster,
                  fmt::format("{}: is missing, but the manifest beside it names it: put the file back, or restore the "
                              "cluster from a checkpoint",
                              pool->path().native()));
    }
    options mine = opening;
    mine.beside_writer = false;  // the versions of all ranks that are settled need not be the same
    mine.creation = found.everywhere ? creation::open_existing : creation::open_or_create;
    if (mine.access == access::read_write && shares_memory() && std::filesystem::is_directory(memory_folder)) {
      shared_as_ = mine.shared_as = std::filesystem::path(memory_folder) / ("icecore-" + random_id());
    }
    if (part != nullptr) mine.copy_of = part->file;
    store_.emplace(pool->path(), mine);
    pool->opened();
    const auto there = store_->stats();
    if (part != nullptr) {
      if (there.pool_id == part->pool_id) return;
      throw error(errc::other_cluster,
                  fmt::format("{}: this file is pool {}, but the checkpoint's manifest names pool {}",
                              part->file.native(), there.pool_id, part->pool_id));
    }
    if (found.everywhere || there.records == 0) return;
    throw error(errc::other_cluster,
                fmt::format("{}: holds data, but {} no cluster manifest: put the missing folder or file back",
                            store_->path().native(), found.here ? "another rank's folder has" : "there is"));
  });
  agree_.on(step::open_store, failure);
  agree_on_pools(found);
}

void cluster_core::agree_on_pools(const found_manifest& found) {
  constexpr int pool_id_size = 32;
  std::string mine = store_->stats().pool_id;
  mine.resize(pool_id_size);
  const auto failure = attempt([&] {
    if (!found.everywhere || found.here->pools[static_cast<std::size_t>(rank_)] == mine) return;
    throw error(errc::other_cluster,
                fmt::format("{}: this file is pool {}, but the manifest beside it names pool {}: put the right file "
                            "back or, if it was replaced on purpose, write its number into the manifest",
                            store_->path().native(), mine, found.here->pools[static_cast<std::size_t>(rank_)]));
  });
  const std::int64_t id = found.here ? static_cast<std::int64_t>(std::hash<std::string>{}(found.here->id) >> 1) : 0;
  const agreed ids = agree_.on(step::open_pools, failure, id);
  if (found.everywhere) {
    first_pool_ = found.here->pools.front();
    if (ids.least == ids.greatest) return;
    agree_.refuse(errc::other_cluster,
                  fmt::format("{}: the ranks' folders belong to different clusters", path_.native()));
  }
  std::string all(static_cast<std::size_t>(pool_id_size * ranks_), '\0');
  agree_.gather(mine.data(), pool_id_size, all.data());
  first_pool_ = all.substr(0, pool_id_size);
  manifest content{random_id(), ranks_, ownership_.description(), {}};
  agree_.broadcast(content.id.data(), pool_id_size, 0);
  for (std::size_t at = 0; at < all.size(); at += pool_id_size) content.pools.push_back(all.substr(at, pool_id_size));
  publish_manifest(agree_, rank_, path_, content);
}

/// Opens the stores of this rank's storage group as attached stores. A store that cannot be attached (each rank in a
/// container of its own, too few addresses) is reached by messages.
void cluster_core::attach(const options& opening) {
  constexpr std::size_t name_size = 64;
  std::string mine = shared_as_.native();
  mine.resize(name_size);
  std::string all(name_size * static_cast<std::size_t>(ranks_), '\0');
  agree_.gather(mine.data(), name_size, all.data());
  attached_.resize(static_cast<std::size_t>(ranks_));
  direct_.resize(static_cast<std::size_t>(ranks_));
  for (int r = 0; r < ranks_; ++r) {
    const char* const name = all.data() + name_size * static_cast<std::size_t>(r);
    if (r == rank_ || *name == '\0' || !shares_memory_with(r)) continue;
    options beside = opening;
    beside.access = access::attached;
    beside.shared_as = name;
    try {
      attached_[static_cast<std::size_t>(r)] = std::make_unique<store>(pool_path(path_, r), beside);
      direct_[static_cast<std::size_t>(r)] = true;
    } catch (const error&) {  // reaches_directly() reports it
    }
  }
  agree_.on(step::open_attached, nullptr);
  // no rank will attach after this step: remove the name now, so that nothing stays behind, however the ranks end
  std::error_code ignored;
  if (!shared_as_.empty()) std::filesystem::remove(shared_as_, ignored);
}

void cluster_core::connect(const cluster_options& opening) {
  const auto failure = attempt([&] {
    own_ =
        std::make_unique<store_partition>(*store_, allowed_, [this](int signum) { signals_.notified(rank_, signum); });
    checkpoints_ = std::make_unique<checkpoints>(running_, rank_, ranks_);
    server_ = std::make_unique<server>(messages_, *own_, signals_, *checkpoints_);
    for (int r = 0; r < ranks_; ++r) partitions_.push_back(r == rank_ ? own_.get() : reach(r, opening.staging_bytes));
    hook_ = std::make_unique<finalize_hook>([this] {
      running_.stop_thread();  // first: inside MPI_Finalize MPICH no longer separates threads
      try {
        close();
      } catch (...) {  // no caller is left to receive it
      }
    });
    if (opening.progress_thread && has_full_threads()) running_.start_thread();
  });
  align_clocks(step::open_clock, step::open_aligned, failure);
  agree_on_lost_versions();
  agree_on_expired_versions();
}

partition* cluster_core::reach(int rank, std::size_t staging_bytes) {
  auto messages = std::make_unique<remote_partition>(running_, rank, staging_bytes);
  if (auto& attached = attached_[static_cast<std::size_t>(rank)]) {
    remote_.push_back(std::make_unique<attached_partition>(std::move(attached), allowed_, std::move(messages)));
  } else {
    remote_.push_back(std::move(messages));
  }
  return remote_.back().get();
}

/// From then on each rank's store has the lost versions of all ranks, so they stay lost in its checkpoints too. The
/// clocks are aligned, so these versions are closed on all ranks.
void cluster_core::agree_on_lost_versions() {
  lost_ = lost_on_any_rank(agree_, ranks_, store_->lost_versions());
  agree_.on(step::open_lost, attempt([&] {
              const bool knows = std::ranges::equal(lost_.ranges(), store_->lost_versions().ranges());
              if (!knows && !store_->read_only()) store_->lose(lost_);
            }));
}

}  // namespace icecore::mpi
