// What the figures of resumable queries measure: maps of whole numbers to items of one size.
//
// Threads: any number call insert, remove and get, at the same time as one calls query. Errors: any exception.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace icecore::bench::resumable {

enum class structure : std::uint8_t { skip_list, hash_table };
[[nodiscard]] constexpr const char* name_of(structure s) noexcept {
  return s == structure::skip_list ? "skip list" : "hash table";
}

/// Thrown by on_item to stop a query.
struct stopped {};

class subject {
 public:
  subject() = default;
  virtual ~subject() = default;
  subject(const subject&) = delete;
  subject& operator=(const subject&) = delete;

  /// Whether the key was not there.
  virtual bool insert(std::uint64_t key, std::string_view item) = 0;
  /// Whether it was.
  virtual bool remove(std::uint64_t key) = 0;
  virtual bool get(std::uint64_t key) = 0;

  /// Counts the items that matches() says yes to. Goes on with a query that a kill ended, if this kind can. Calls
  /// on_item() before each evaluation.
  virtual std::uint64_t query(const std::function<void()>& on_item) = 0;

  /// Bytes of memory or file in use; 0: not known.
  [[nodiscard]] virtual std::uint64_t bytes() const { return 0; }
};

/// The condition of all queries: the number at an item's beginning is a multiple of ten.
[[nodiscard]] bool matches(std::string_view item);
/// An item of a key. `space` is of the item's size.
void fill(std::span<char> space, std::uint64_t key);

struct opening {
  std::filesystem::path folder;  ///< of this subject alone
  structure is = structure::skip_list;
  std::uint64_t keys = 0;     ///< that may be there
  std::uint64_t inserts = 0;  ///< at most, between two openings
  std::size_t item_size = 8;
};

struct kind {
  std::string name;
  std::string what;  ///< one sentence
  bool durable;      ///< what a killed process left is found by the next one; else it is loaded anew
  bool on_disk;      ///< its folder is below --disk
  std::function<std::unique_ptr<subject>(const opening&)> open;
};

/// icecore, PDT, volatile, FS, FS-disk.
[[nodiscard]] const std::vector<kind>& all_kinds();

}  // namespace icecore::bench::resumable
