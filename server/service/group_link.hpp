// What a server of a dependent group does together with the others: the service knows no more of a group than this.
//
//   link->executes([&](const std::string& order) { return service.execute(order); });
//   link->everywhere(R"({"do":"create", ...})");       // on all servers, in one order; this one's answer
//
// Threads: any may call everywhere(); orders are executed one at a time, in the same sequence on all servers, by a
// thread of the link. An order must not give another one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "service/database.hpp"

namespace icecore::service {

class group_link {
 public:
  group_link() = default;
  group_link(const group_link&) = delete;
  group_link& operator=(const group_link&) = delete;
  virtual ~group_link() = default;

  /// Which server this is, from 0, and how many there are.
  [[nodiscard]] virtual std::uint32_t index() const noexcept = 0;
  [[nodiscard]] virtual std::uint32_t size() const noexcept = 0;
  /// Whether this server does what is done once for all servers of its node: it is the first of them.
  [[nodiscard]] virtual bool leads_node() const noexcept = 0;

  // ---- Called by every server, in the same sequence: before executes(), or while an order is executed ----
  /// The first server's text.
  [[nodiscard]] virtual std::string of_first(const std::string& mine) = 0;
  /// Throws on all servers if one has failed: the failure of the first that has.
  virtual void agree(const std::optional<failure>& mine) = 0;
  /// Whether it is so at all servers.
  [[nodiscard]] virtual bool everywhere_is(bool mine) = 0;

  /// Where a database of this number has its files: one folder for all servers of a node.
  [[nodiscard]] virtual std::filesystem::path folder(std::uint64_t number) const = 0;
  /// Opens or makes a database that lies on all servers: at all of them, or at none. Called as the three above.
  [[nodiscard]] virtual std::shared_ptr<database> open(const std::filesystem::path& folder,
                                                       const database_settings& settings,
                                                       const database_environment& around) = 0;
  /// Executes the order on all servers and returns what it returned on the first one. Throws what the first server that
  /// failed has thrown. errc::unavailable once the group stops.
  virtual std::string everywhere(const std::string& order) = 0;
  /// Who executes orders on this server, before the first of them. From then on orders are executed.
  virtual void executes(std::function<std::string(const std::string&)> how) = 0;
};

}  // namespace icecore::service
