// Rows that a server sends block by block, and those of several servers as one row after the other.
//
//   row_source from(database, part, open_scan_request{...}, deadline);
//   while (const row_place* at = from.current()) { use(at->key(), at->value()); from.step(); }
//
// While a block is read, the next two are under way, and with each block that is read one more, to eight or 3 MiB. If
// the connection breaks, the rows are opened again at the version that they are of, behind the last one that was given:
// behind its key, or at its version without as many rows as were given of that.
//
// Threads: one at a time. Errors: icecore::error. Cost: one message a block of 256 KiB.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "operation.hpp"

namespace icecore::remote::detail {

using open_request = std::variant<wire::open_scan_request, wire::open_history_request, wire::open_differences_request,
                                  wire::open_changes_request>;

class row_source {
 public:
  row_source(std::shared_ptr<database> of, std::size_t part, open_request what, std::chrono::milliseconds deadline);
  ~row_source();
  row_source(const row_source&) = delete;
  row_source& operator=(const row_source&) = delete;

  [[nodiscard]] bool at_end() const noexcept { return row_ >= block_.size(); }
  void step();
  [[nodiscard]] std::string_view key() const { return block_.key(row_); }
  [[nodiscard]] std::string_view value() const { return block_.value(row_); }
  [[nodiscard]] bool removed() const { return block_.removed(row_); }
  [[nodiscard]] version written() const { return block_.version(row_); }
  /// Empty: there was none, or it was not asked for.
  [[nodiscard]] std::optional<std::string_view> before() const { return block_.before(row_); }

 private:
  void open();
  void ask_ahead();
  void load();
  void close() noexcept;
  /// Goes on behind what was given, over another connection.
  void resume();
  /// Changes the request so; false: nothing is missing. There is a last row.
  [[nodiscard]] bool begins_behind_last(wire::open_scan_request& scan);
  [[nodiscard]] bool begins_behind_last(wire::open_differences_request& differences);
  [[nodiscard]] bool begins_behind_last(wire::open_history_request& history);
  [[nodiscard]] bool begins_behind_last(wire::open_changes_request& changes);
  template <class Request>
  [[nodiscard]] std::unique_ptr<operation> begun(const Request& asked, std::chrono::milliseconds deadline) const;
  void take(wire::answer&& message, const std::string& server);

  std::shared_ptr<database> of_;
  std::size_t part_;
  open_request what_;
  std::chrono::milliseconds deadline_;
  sent_over connection_;
  std::deque<std::unique_ptr<operation>> ahead_;
  std::size_t blocks_ahead_ = 0;  // as many may be asked for
  std::uint32_t rows_ = 0;
  std::uint64_t asked_ = 0;  // blocks
  bool all_sent_ = true;     // the last block has come
  wire::answer message_;     // holds the rows of the block
  wire::rows_view block_;    // not longer than message_
  std::size_t row_ = 0;
  std::uint64_t given_ = 0;
  std::string last_key_;
  version last_version_ = 0;
  std::uint64_t given_of_version_ = 0;  // rows of the last one's version
  std::uint64_t leave_out_ = 0;         // rows of the next blocks that were given already
};

/// The rows of all parts, in key order (the only part's order if there is one), or by version, then by key.
class [[gnu::visibility("hidden")]] row_merge {
 public:
  row_merge(std::vector<std::unique_ptr<row_source>> parts, bool reverse, bool by_version = false);
  /// The next row's source; null at the end.
  [[nodiscard]] row_source* current() noexcept { return least_; }
  void step();

 private:
  void choose();
  [[nodiscard]] bool comes_before(const row_source& a, const row_source& b) const;
  std::vector<std::unique_ptr<row_source>> parts_;
  bool reverse_;
  bool by_version_;
  row_source* least_ = nullptr;
};

}  // namespace icecore::remote::detail
