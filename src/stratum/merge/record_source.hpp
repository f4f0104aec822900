// Records in the order of (key ascending, version descending), one after the other: what a merge reads.
//
//   for (record_source& s = ...; !s.at_end(); s.next()) use(s.key(), s.record());
//
// Threads: one object, one thread. Lifetime: a view is valid until next(), unless the source says that it is longer.
// Errors: next() and the constructors of sources raise what reading raises, errc::damaged for instance.
#pragma once

#include <string_view>

#include "stratum/block/packed_record.hpp"
#include "stratum/extent.hpp"

namespace icecore::stratum {

class record_source {
 public:
  virtual ~record_source() = default;
  [[nodiscard]] virtual bool at_end() const noexcept = 0;
  /// Precondition of this and the next ones: !at_end().
  [[nodiscard]] virtual std::string_view key() const noexcept = 0;
  [[nodiscard]] virtual const packed_record& record() const noexcept = 0;
  virtual void next() = 0;
};

/// All records of an extent from a key on. Views are valid as long as the extent.
class extent_records final : public record_source {
 public:
  explicit extent_records(const extent& of, std::string_view from = {});

  [[nodiscard]] bool at_end() const noexcept override { return block_ == of_->blocks(); }
  [[nodiscard]] std::string_view key() const noexcept override { return key_; }
  [[nodiscard]] const packed_record& record() const noexcept override { return record_; }
  void next() override;

 private:
  void enter_block(std::uint32_t first_key);
  void read_row();

  const extent* of_;
  std::uint32_t block_ = 0;
  std::uint32_t key_at_ = 0;   // in the block
  std::uint64_t row_end_ = 0;  // of the current record, in the block
  std::string_view key_;
  packed_record record_;
};

}  // namespace icecore::stratum
