// What a file is in its store: the first file, whose root decides for all, or a secondary file. The pool set gives each
// file its role; opening the file (pool.cpp) asks the role, and never which one it is.
//
// Threads: one. A role is needed only while its file is opened or made.
// Errors: those of pool, each naming the file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "icecore/options.hpp"
#include "pool/file/file.hpp"
#include "pool/file/persist.hpp"
#include "pool/format.hpp"

namespace icecore {

class pool;

class file_role {
 public:
  virtual ~file_role() = default;
  file_role(const file_role&) = delete;
  file_role& operator=(const file_role&) = delete;

  /// In links.
  [[nodiscard]] std::uint16_t number() const noexcept { return number_; }
  /// The NUMA node whose memory the file should use; -1: any.
  [[nodiscard]] int node() const noexcept { return node_; }

  /// Whether the file is to be made.
  [[nodiscard]] virtual creation wanted(const options& opening) const noexcept = 0;
  /// Throws unless the root `r` of the file at `path` is that of this file of the store.
  virtual void check(const format::root& r, const std::string& path, const options& opening) const = 0;
  /// Whether another file's root says that the store was closed, whatever the root of this file says.
  [[nodiscard]] virtual bool closed_elsewhere() const = 0;

  /// Takes the place of a root of which both pages are damaged: has what is known without them.
  struct stand_in {
    format::root root;
    const char* lost;  ///< what is not known any more, in words
  };
  /// Empty if nothing is known.
  [[nodiscard]] virtual std::optional<stand_in> stand_in_for(const pool_file& file, std::uint64_t size) const = 0;

  /// Sets in the first root of a new file of which store it is.
  virtual void name_store(format::root& r, const pool_file& file, const options& opening) const = 0;
  /// Completes `how`, which has the file's medium.
  virtual void choose_durability(durability_info& how, const pool_file& file, const options& opening) const = 0;
  struct persisted {
    std::shared_ptr<persistence> by;
    unsigned file;  ///< its number there
  };
  /// What makes the file durable: one object for all files of the store. `make` makes it.
  [[nodiscard]] virtual persisted persisted_by(const pool_file& file,
                                               const std::function<std::shared_ptr<persistence>()>& make) const = 0;

 protected:
  file_role(std::uint16_t number, int node) noexcept : number_(number), node_(node) {}

 private:
  std::uint16_t number_;
  int node_;
};

class first_file final : public file_role {
 public:
  first_file() noexcept : file_role(0, -1) {}

  [[nodiscard]] creation wanted(const options& opening) const noexcept override { return opening.creation; }
  void check(const format::root& r, const std::string& path, const options& opening) const override;
  [[nodiscard]] bool closed_elsewhere() const override { return false; }
  [[nodiscard]] std::optional<stand_in> stand_in_for(const pool_file& file, std::uint64_t size) const override;
  void name_store(format::root& r, const pool_file& file, const options& opening) const override;
  void choose_durability(durability_info& how, const pool_file& file, const options& opening) const override;
  [[nodiscard]] persisted persisted_by(const pool_file& file,
                                       const std::function<std::shared_ptr<persistence>()>& make) const override;
};

/// A file that the root of the first file names.
class secondary_file : public file_role {
 public:
  /// `first` outlives the file.
  secondary_file(const pool& first, std::uint16_t number, int node) noexcept : file_role(number, node), first_(first) {}

  [[nodiscard]] creation wanted(const options&) const noexcept override { return creation::open_existing; }
  /// errc::missing_file if the file belongs to another store, has another number or is from another time.
  void check(const format::root& r, const std::string& path, const options& opening) const override;
  [[nodiscard]] bool closed_elsewhere() const override;
  [[nodiscard]] std::optional<stand_in> stand_in_for(const pool_file& file, std::uint64_t size) const override;
  void name_store(format::root& r, const pool_file& file, const options& opening) const override;
  void choose_durability(durability_info& how, const pool_file& file, const options& opening) const override;
  [[nodiscard]] persisted persisted_by(const pool_file& file,
                                       const std::function<std::shared_ptr<persistence>()>& make) const override;

 protected:
  /// All checksums have the seed of the store. Where the first file's root is lost, only the seed is known of its id.
  [[nodiscard]] bool is_of_store(const format::root& r) const noexcept;

 private:
  const pool& first_;
};

/// A file that is made with its store. One that an interrupted creation of the same store left is taken over.
class new_secondary_file final : public secondary_file {
 public:
  using secondary_file::secondary_file;

  [[nodiscard]] creation wanted(const options&) const noexcept override { return creation::open_or_create; }
  /// errc::store_exists if anything else is there.
  void check(const format::root& r, const std::string& path, const options& opening) const override;
};

}  // namespace icecore
