// For tests of dependent groups: a server on each rank of the job, without doors.
//
//   TEST_F(ServerGroup, reads_what_it_wrote) { start(); const auto db = create("one"); put(*db, "a", "1"); ... stop();
//   }
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "group/mpi_link.hpp"
#include "icecore/error.hpp"
#include "service/owner.hpp"
#include "service/service.hpp"
#include "support/ranks.hpp"

namespace icecore::server::group {

using namespace std::chrono_literals;
using icecore::testing::rank;
using icecore::testing::ranks;
using ::testing::ElementsAre;

template <typename Call>
[[nodiscard]] errc code_of(Call call) {
  try {
    call();
  } catch (const error& e) {
    return static_cast<errc>(e.code().value());
  }
  return {};
}

class ServerGroup : public icecore::testing::ClusterTest {
 protected:
  /// Servers on the first ranks of the job: all, or so many. The others have none, and go on to the next meet().
  void start(const std::filesystem::path& data, int servers, bool users = false) {
    MPI_Comm_split(MPI_COMM_WORLD, rank() < servers ? 0 : 1, rank(), &comm_);
    if (rank() < servers) {
      link_ = std::make_unique<mpi_link>(comm_, data);
      service::service_options options;
      options.data = data / ("rank-" + std::to_string(rank()));
      options.limits = limits_;
      options.link = link_.get();
      options.users = users;
      options.group = {
          .name = "g", .index = static_cast<std::uint32_t>(rank()), .size = static_cast<std::uint32_t>(servers)};
      service_ = std::make_unique<service::service>(std::move(options));
    }
    meet();
  }
  void start() { start(path(), ranks()); }
  [[nodiscard]] bool serves() const { return service_ != nullptr; }
  void stop() {
    meet();
    if (serves()) {
      link_->end();
      service_->stop();
    }
    service_.reset();
    link_.reset();
    MPI_Comm_free(&comm_);
    meet();
  }
  static void meet() { MPI_Barrier(MPI_COMM_WORLD); }
  // What a rank has, at all ranks.
  static std::string of_rank(int from, std::string text) {
    std::uint64_t size = text.size();
    MPI_Bcast(&size, 1, MPI_UINT64_T, from, MPI_COMM_WORLD);
    text.resize(size);
    MPI_Bcast(text.data(), static_cast<int>(size), MPI_BYTE, from, MPI_COMM_WORLD);
    return text;
  }

  // Made by one server, there on all.
  std::shared_ptr<service::database> create(const std::string& name, int by = 0,
                                            service::database_settings settings = {}) {
    if (rank() == by) {
      settings.name = name;
      settings.rule = service::version_rule::tag;
      service_->create(root_, settings);
    }
    meet();
    return serves() ? service_->find_database(root_, name) : nullptr;
  }
  /// A key that this server owns; each `number` gives another one.
  static std::string key_at(int server, int number) {
    for (int tried = 0;; ++tried) {
      std::string key = "key" + std::to_string(number) + "-" + std::to_string(tried);
      if (service::owner_of(key, static_cast<std::uint32_t>(ranks())) == static_cast<std::uint32_t>(server)) return key;
    }
  }

  static service::outcome write(service::database& db, service::transaction what) {
    std::promise<service::result<service::outcome>> promised;
    db.write(std::move(what), [&](service::result<service::outcome> came) { promised.set_value(std::move(came)); });
    auto came = promised.get_future().get();
    if (const auto* failed = std::get_if<service::failure>(&came)) service::raise(*failed);
    return std::get<service::outcome>(std::move(came));
  }
  static service::operation_result one(service::database& db, service::operation what) {
    service::transaction t;
    t.then.push_back(std::move(what));
    return write(db, std::move(t)).results.at(0);
  }
  static void put(service::database& db, std::string key, std::string value) {
    one(db, service::operation::put(std::move(key), std::move(value)));
  }
  static std::string read(service::database& db, std::string_view key, const service::point& at = service::newest{}) {
    const auto is = db.find(key, at);
    return is ? std::string(is->value()) : "(none)";
  }
  static std::vector<std::string> rows(service::row_stream& stream) {
    std::vector<std::string> all;
    for (service::row_block block; stream.next(block, {.rows = 3});) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        all.push_back(std::string(block.keys[i]) + "=" + std::string(block.values[i]));
      }
    }
    return all;
  }

  service::limits limits_{.free_disk_bytes = 0};  // of this rank's server
  MPI_Comm comm_ = MPI_COMM_NULL;
  service::principal root_ = service::principal::anyone();
  std::unique_ptr<mpi_link> link_;
  std::unique_ptr<service::service> service_;
};

}  // namespace icecore::server::group
