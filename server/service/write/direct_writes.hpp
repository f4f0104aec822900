// The rules `every` and `tag`: the threads that call write themselves, and something else closes versions.
//
// Each key belongs to one of the stripes, by its hash. A transaction locks the stripes of all keys that it names, in
// their order, and all stripes if it names ranges or leases. So what reads before it writes (conditions, updates,
// put_new) is never overtaken by a write between: every write of a key, plain ones too, holds its stripe.
// A transaction of several operations is one batch of the store, which readers see all of or nothing.
//
// If the database promises that operations are durable, the store writes without waiting, and the answer waits for a
// sync that serves all answers which have gathered (durable_answers).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "service/write/execution.hpp"
#include "service/write/write_path.hpp"

namespace icecore::service {

class direct_writes final : public write_path {
 public:
  explicit direct_writes(const write_parts& parts);
  ~direct_writes() override;

  void write(transaction what, completion done) override;
  std::optional<icecore::version> put_at_once(std::string_view key, std::string_view value) override;
  std::uint64_t load(const row_block& rows, bool keep) override;
  icecore::version tag(const icecore::tag_options& label) override;
  [[nodiscard]] icecore::snapshot newest() override;
  [[nodiscard]] std::optional<found> find_newest(std::string_view key) override;
  void close_version() override;
  [[nodiscard]] held hold() override;
  [[nodiscard]] std::uint64_t waiting() const noexcept override { return answers_.waiting(); }
  void finish() override;

 private:
  static constexpr std::size_t stripe_count = 256;
  struct alignas(64) stripe {
    std::mutex mutex;
  };

  [[nodiscard]] std::size_t stripe_of(std::string_view key) const noexcept;
  [[nodiscard]] held lock(const transaction& what);
  [[nodiscard]] outcome apply(const transaction& what);
  /// Empty while there are leases: the key may have one, which a put takes away.
  [[nodiscard]] std::optional<icecore::version> put_alone(std::string_view key, std::string_view value);
  void answer(outcome what, completion done);
  /// Whether no watch was told of this closed version; from now on it counts as told.
  [[nodiscard]] bool is_newly_told(icecore::version closed);
  /// Tells watches of this closed version, once it is durable if that is promised.
  void tell(icecore::version closed);
  /// Everything written so far is durable when it returns.
  void wait_until_durable();

  write_parts parts_;
  std::array<stripe, stripe_count> stripes_;
  std::atomic<icecore::version> told_;  // watches know of it; relaxed: only to skip what is known
  durable_answers answers_;
};

}  // namespace icecore::service
