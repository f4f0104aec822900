// The link between the servers of a dependent group: the ranks of one MPI job.
//
//   mpi_link link(MPI_COMM_WORLD, "/var/lib/icecore");
//   options.link = &link;                       // of the service of this rank
//   link.on_stop([] { ... });                   // some rank asked all to stop
//   link.ask_to_stop();                         // any rank: all stop
//   link.end();                                 // collective, before the services stop
//
// Threads: as group_link. MPI_THREAD_MULTIPLE is needed.
#pragma once

#include <mpi.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "group/cluster_database.hpp"
#include "group/control.hpp"
#include "service/group_link.hpp"

namespace icecore::server::group {

class mpi_link final : public service::group_link {
 public:
  /// `data`: the folder of the databases, the same on all ranks of a node; each rank's own catalog lies elsewhere.
  mpi_link(MPI_Comm servers, std::filesystem::path data);
  ~mpi_link() override;

  [[nodiscard]] std::uint32_t index() const noexcept override { return static_cast<std::uint32_t>(rank()); }
  [[nodiscard]] std::uint32_t size() const noexcept override { return static_cast<std::uint32_t>(control_.size()); }
  [[nodiscard]] bool leads_node() const noexcept override { return control_.leads_node(); }
  [[nodiscard]] std::string of_first(const std::string& mine) override { return control_.of_first(mine); }
  void agree(const std::optional<service::failure>& mine) override { control_.agree(mine); }
  [[nodiscard]] bool everywhere_is(bool mine) override { return control_.everywhere_is(mine); }
  [[nodiscard]] std::filesystem::path folder(std::uint64_t number) const override;
  [[nodiscard]] std::shared_ptr<service::database> open(const std::filesystem::path& folder,
                                                        const service::database_settings& settings,
                                                        const service::database_environment& around) override;
  std::string everywhere(const std::string& order) override;
  void executes(std::function<std::string(const std::string&)> how) override;

  /// Before executes().
  void on_stop(std::function<void()> call) { stopping_ = std::move(call); }
  void ask_to_stop();
  /// Collective. No order is executed afterwards.
  void end();

  [[nodiscard]] int rank() const noexcept { return control_.rank(); }

 private:
  [[nodiscard]] std::string execute(const std::string& order);
  [[nodiscard]] std::shared_ptr<cluster_database> find(const std::string& name);
  void close_versions();

  MPI_Comm servers_;
  std::filesystem::path data_;
  control control_;
  std::function<std::string(const std::string&)> service_executes_;
  std::function<void()> stopping_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<cluster_database>> databases_;
  // Rank 0 closes the versions of databases with the rule `every`.
  std::condition_variable timer_wakes_;
  bool timer_over_ = false;
  std::thread timer_;
};

}  // namespace icecore::server::group
