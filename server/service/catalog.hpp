// What a server knows of itself and its databases, in a store of its own: `catalog.ice`.
//
//   catalog c("/var/lib/icecore/catalog.ice");
//   entry e{.number = c.next_number(), .settings = s};
//   c.use_number(e.number);                                      // durable when it returns
//   c.put(e);                                                    // so is this
//
// Keys: "server/identity", "server/group", "database/NAME" with JSON, and those of access.hpp. Each change closes a
// version, so the catalog tells what was there when.
// Threads: any number. Errors: icecore::error; damaged if a record of it is not understood.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "icecore/store.hpp"
#include "service/database.hpp"
#include "service/group_place.hpp"

namespace icecore::service {

struct catalog_entry {
  std::uint64_t number;  ///< of its folder; never used twice
  database_settings settings;
};

class catalog {
 public:
  /// Opens the catalog, or makes it with a new identity.
  explicit catalog(const std::filesystem::path& path);

  [[nodiscard]] icecore::store& store() noexcept { return store_; }
  [[nodiscard]] const std::string& identity() const noexcept { return identity_; }
  /// The place in a group that this folder belongs to: the first that it was opened with.
  /// errc::other_cluster if it is another one.
  void require_place(const group_place& place);

  [[nodiscard]] std::vector<catalog_entry> databases() const;
  [[nodiscard]] std::optional<catalog_entry> find(std::string_view name) const;
  /// A number that no database had. use_number() says that one has it.
  [[nodiscard]] std::uint64_t next_number() const;
  void use_number(std::uint64_t number);
  void put(const catalog_entry& what);
  void remove(std::string_view name);

  // ---- Groups and snapshots ----
  /// What all servers of a dependent group have alike, as JSON: databases, users and roles. `is_new` in it: this
  /// catalog was just made.
  [[nodiscard]] std::string shared_records() const;
  /// Makes this catalog's shared records those of the text, in one batch, which is durable when the call returns.
  /// errc::other_cluster if that catalog is new and this one is not.
  void take_shared_records(std::string_view text);
  /// The folder is that of another server from now on, with a new identity. Empty: the next start says of which place.
  void move_to(const std::optional<group_place>& place);
  void close() { store_.close(); }

 private:
  void durable();

  icecore::store store_;
  std::string identity_;
  bool is_new_ = false;
};

/// The settings as JSON, without the name; what catalogs keep, and groups of servers tell each other.
[[nodiscard]] std::string text_of(const database_settings& settings);
/// errc::damaged, naming `where`, if it is not understood.
[[nodiscard]] database_settings settings_of(std::string_view where, std::string_view text);

/// The settings as they are told: "every 1 s", "operation", ...
[[nodiscard]] std::string_view text_of(version_rule rule) noexcept;
[[nodiscard]] std::string_view text_of(value_compression how) noexcept;
[[nodiscard]] std::string_view text_of(icecore::durability mode) noexcept;
[[nodiscard]] std::string_view text_of(icecore::index_kind kind) noexcept;
[[nodiscard]] std::optional<version_rule> rule_of(std::string_view text) noexcept;
[[nodiscard]] std::optional<value_compression> compression_of(std::string_view text) noexcept;
[[nodiscard]] std::optional<icecore::durability> durability_of(std::string_view text) noexcept;
[[nodiscard]] std::optional<icecore::index_kind> index_of(std::string_view text) noexcept;

}  // namespace icecore::service
