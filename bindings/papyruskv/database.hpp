// One database: a cluster in a folder of the repository, and the additional state that PapyrusKV needs.
//
// Threads: as icecore::cluster. Calls that visit all databases (platform) use data() and destroyed() with the mutex
//   held shared. The mutex is held exclusively while the cluster is created or released, but not while this rank waits
//   for others.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "icecore/cluster.hpp"
#include "iteration.hpp"
#include "papyrus/kv.h"

namespace papyruskv {

/// How a database is opened.
struct opening {
  std::string name;
  std::filesystem::path folder;
  icecore::cluster_options options;
  icecore::protection protection = icecore::protection::read_write;
  papyruskv_hash_fn_t hash = nullptr;
  std::size_t value_size = 0;                        ///< papyruskv_option_t::vallen
  std::optional<icecore::checkpoint_source> from{};  ///< the checkpoint it is restored from, if any
};

/// Ownership by a caller's hash, or by the built-in one.
[[nodiscard]] icecore::ownership ownership_by(papyruskv_hash_fn_t hash);

class database {
 public:
  /// Collective on `comm`. `visitors` must outlive this object.
  database(MPI_Comm comm, opening how, std::shared_mutex& visitors);

  [[nodiscard]] const std::string& name() const noexcept { return how_.name; }
  [[nodiscard]] const std::filesystem::path& folder() const noexcept { return how_.folder; }
  [[nodiscard]] std::size_t value_size() const noexcept { return how_.value_size; }
  [[nodiscard]] papyruskv_hash_fn_t hash() const noexcept { return how_.hash; }
  [[nodiscard]] bool destroyed() const noexcept { return !data_; }
  /// errc::closed if the database was destroyed.
  [[nodiscard]] icecore::cluster& data();

  /// Whether the database's hash gives this rank the keys that it holds; checks a few of them.
  [[nodiscard]] bool hash_fits();

  /// Waits for all events and closes (collective).
  void close();
  /// Opens an empty database again, with another hash, after its files were removed. Collective.
  void open_again(MPI_Comm comm, papyruskv_hash_fn_t other);

  void define_update(int number, papyruskv_update_fn_t function);
  void update(std::string_view key, int number, std::string_view input, void* output, std::size_t output_size);

  /// Begins to write the database to a folder; returns the event of its completion. Collective.
  [[nodiscard]] int checkpoint(const std::filesystem::path& folder);

  /// `finish` returns when the event has happened.
  [[nodiscard]] int add_event(std::function<void()> finish);
  /// errc::invalid_argument if there is no such event, or a call has waited for it.
  void wait(int event);

  /// Null if this rank has no keys.
  [[nodiscard]] papyruskv_iter_t first_local();
  /// Returns the same iterator, or null after the last key, which ends it. errc::invalid_argument if it is not an
  /// iterator of this database.
  [[nodiscard]] papyruskv_iter_t next_local(papyruskv_iter_t at);

 private:
  void open(MPI_Comm comm);
  [[nodiscard]] icecore::cluster taken();
  /// An event that no call has waited for; empty if there is none.
  [[nodiscard]] std::function<void()> next_event();

  opening how_;
  std::shared_mutex& visitors_;
  std::optional<icecore::cluster> data_;
  std::map<int, papyruskv_update_fn_t> updates_;
  // update functions change values in it in place; a page takes memory once it is used
  std::shared_ptr<char[]> update_buffer_;
  std::mutex mutex_;  // guards what follows
  std::map<int, std::function<void()>> events_;
  int last_event_ = 0;
  std::map<papyruskv_iter_t, std::unique_ptr<iteration>> iterations_;
};

}  // namespace papyruskv
