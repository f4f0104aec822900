// A cluster made from a checkpoint: first its pools, all of them complete, checked and durable, then the manifest that
// makes them a cluster. So an interrupted restore leaves pools that no cluster opens, and a file `restoring` that makes
// the next restore remove them.
#include <fmt/format.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <utility>
#include <vector>

#include "cluster/cluster_core.hpp"
#include "cluster/copy/redistribution.hpp"

namespace icecore::mpi {
namespace {

class restorer {
 public:
  restorer(MPI_Comm comm, const checkpoint_source& from, std::filesystem::path path, const cluster_options& opening)
      : comm_(comm),
        from_(from),
        path_(std::move(path)),
        opening_(opening),
        messages_(comm_.get()),
        waiting_(
            messages_, [](message&&) {}, [] { return false; }, !has_full_threads()),
        agree_(comm_.get(), waiting_) {
    check(MPI_Comm_rank(comm_.get(), &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_.get(), &ranks_), "MPI_Comm_size");
  }

  ~restorer() {
    if (!waiting_.broken()) return;
    waiting_.end_telling();
    comm_.abandon();
  }
  restorer(const restorer&) = delete;
  restorer& operator=(const restorer&) = delete;

  [[nodiscard]] std::unique_ptr<cluster_core> run(MPI_Comm comm) {
    return agree_.all([&] { return run_with_all(comm); });
  }

 private:
  [[nodiscard]] std::unique_ptr<cluster_core> run_with_all(MPI_Comm comm) {
    read_checkpoint();
    clear_folder();
    try {
      std::unique_ptr<cluster_core> made = make(comm);
      std::error_code ignored;
      std::filesystem::remove(marker(), ignored);
      return made;
    } catch (...) {  // on all ranks: the pools are not a cluster
      undo();
      throw;
    }
  }

  /// Removes what the restore made.
  void undo() const {
    std::error_code ignored;
    remove_manifest(path_);
    std::filesystem::remove(own_pool(), ignored);
    std::filesystem::remove(marker(), ignored);
  }

  [[nodiscard]] std::filesystem::path own_pool() const { return pool_path(path_, rank_); }
  [[nodiscard]] std::filesystem::path marker() const { return path_ / "restoring"; }

  void read_checkpoint() {
    const auto failure = attempt([&] {
      opening_.ownership.check(ranks_);
      if (opening_.store.access != access::read_write || opening_.store.creation == creation::open_existing) {
        throw error(errc::invalid_argument,
                    "restore makes a new cluster: give it read_write access and allow creation");
      }
      if (!from_.stores.empty()) {
        files_ = from_.stores;
        for (const auto& file : files_) {
          if (std::filesystem::exists(file)) continue;
          throw error(errc::no_such_store, fmt::format("{}: there is no store to restore from", file.native()));
        }
        return;
      }
      auto found = read_manifest(from_.folder, manifest_of::checkpoint);
      if (!found) {
        throw error(
            errc::other_cluster,
            fmt::format("{}: no complete checkpoint there: the file `checkpoint`, which is written last, is missing",
                        from_.folder.native()));
      }
      content_ = std::move(*found);
      for (int file = 0; file < content_.ranks; ++file) {
        const auto& part = files_.emplace_back(checkpoint_part(from_.folder, content_.id, file));
        if (std::filesystem::exists(part)) continue;
        throw error(errc::other_cluster, fmt::format("{}: this file of the checkpoint is missing", part.native()));
      }
    });
    std::string named = content_.id;
    for (const auto& store : from_.stores) named.append(store.native()).push_back('\0');
    const std::int64_t id = failure ? 0 : static_cast<std::int64_t>(std::hash<std::string>{}(named) >> 1);
    const agreed same = agree_.on(step::restore_read, failure, id);
    if (same.least != same.greatest) {
      agree_.refuse(
          errc::other_cluster,
          from_.stores.empty()
              ? fmt::format("{}: the ranks see different checkpoints in this folder, or some were told stores",
                            from_.folder.native())
              : fmt::format("{}: the ranks were told different stores to restore from, of which this is one",
                            from_.stores.front().native()));
    }
  }

  void clear_folder() {
    bool cut_off = false;
    agree_.on(step::restore_cleared, attempt([&] {
                make_folder(path_);
                if (read_manifest(path_)) {
                  throw error(errc::store_exists,
                              fmt::format("{}: already has a cluster; restore to another folder", path_.native()));
                }
                cut_off = std::filesystem::exists(marker());  // a restore was interrupted: its pools are removed below
                if (!cut_off && std::filesystem::exists(own_pool())) {
                  throw error(
                      errc::store_exists,
                      fmt::format("{}: exists already, without a cluster manifest beside it; restore to another folder",
                                  own_pool().native()));
                }
              }));
    const auto failure = attempt([&] {
      if (cut_off) remove_pools();
      if (!std::ofstream(marker())) {
        throw error(errc::io, fmt::format("{}: cannot make the file: {}", marker().native(), std::strerror(errno)));
      }
    });
    try {
      agree_.on(step::restore_cleared, failure);
    } catch (...) {
      undo();
      throw;
    }
  }

  /// Removes the pools of any number of ranks.
  void remove_pools() const {
    std::error_code ignored;
    for (const auto& each : std::filesystem::directory_iterator(path_)) {
      if (is_pool_name(each.path().filename().native())) std::filesystem::remove(each.path(), ignored);
    }
  }

  [[nodiscard]] std::unique_ptr<cluster_core> make(MPI_Comm comm) {
    if (fits()) {
      const auto mine = static_cast<std::size_t>(rank_);
      const restored_part part{files_[mine], content_.pools[mine]};
      return opened(comm, opening_, &part);
    }
    manifest made{random_id(), ranks_, opening_.ownership.description(), {}};
    made.pools = gathered(redistribute({rank_, ranks_, files_, content_.pools, own_pool(), &opening_}, agree_));
    agree_.broadcast(made.id.data(), static_cast<int>(made.id.size()), 0);
    publish_manifest(agree_, rank_, path_, made);
    cluster_options found = opening_;
    found.store.creation = creation::open_existing;
    return opened(comm, found, nullptr);
  }

  /// The cluster agrees on a communicator of its own whether it can be opened, so all ranks throw what its constructor
  /// throws.
  [[nodiscard]] std::unique_ptr<cluster_core> opened(MPI_Comm comm, const cluster_options& how,
                                                     const restored_part* part) {
    try {
      return std::make_unique<cluster_core>(comm, path_, how, part);
    } catch (...) {
      agree_.thrown_by_all();
      throw;
    }
  }

  /// Whether the checkpoint's files can be used as the ranks' pools without change.
  [[nodiscard]] bool fits() {
    bool mine = from_.stores.empty() && !from_.redistribute && content_.ranks == ranks_ &&
                content_.owner == opening_.ownership.description();
    std::exception_ptr failure;
    if (mine && opening_.ownership.custom()) {  // the same name may stand for another function
      failure = attempt([&] {
        options reading;
        reading.access = access::read_only;
        reading.beside_writer = false;
        const store part(files_[static_cast<std::size_t>(rank_)], reading);
        mine = std::ranges::all_of(
            part.keys(), [&](std::string_view key) { return opening_.ownership.owner_of(key, ranks_) == rank_; });
      });
    }
    return agree_.on(step::restore_cleared, failure, mine ? 1 : 0).least == 1;
  }

  [[nodiscard]] std::vector<std::string> gathered(const std::string& mine) {
    std::string all(mine.size() * static_cast<std::size_t>(ranks_), '\0');
    agree_.gather(mine.data(), static_cast<int>(mine.size()), all.data());
    std::vector<std::string> ids;
    for (std::size_t at = 0; at < all.size(); at += mine.size()) ids.push_back(all.substr(at, mine.size()));
    return ids;
  }

  communicator comm_;
  const checkpoint_source& from_;
  const std::filesystem::path path_;
  const cluster_options& opening_;
  messenger messages_;
  progress waiting_;
  agreement agree_;
  manifest content_;  // of the checkpoint; empty where there are stores in place of one
  std::vector<std::filesystem::path> files_;
  int rank_ = 0;
  int ranks_ = 0;
};

}  // namespace
}  // namespace icecore::mpi

namespace icecore {

cluster cluster::restore(MPI_Comm comm, const checkpoint_source& from, const std::filesystem::path& path,
                         const cluster_options& opening) {
  mpi::restorer making(comm, from, path, opening);
  return cluster(making.run(comm));
}

}  // namespace icecore
