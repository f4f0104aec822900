// The pins of an open store, in tables of which each is newer than the one before: so that who gives memory, space or
// an engine back knows which pins are older than what it did.
//
//   current_pins pins;
//   pins.begin(core, what_views_lead_into);
//   const pin holds = pins.take();                  // in the newest table; holds.core() is that table's engine
//   const auto number = pins.renew();               // later pins are in a newer one
//   if (number && pins.none_before(*number)) ...    // nobody looks at what was shown before
//
// A pin is taken in the newest table, and then looks again whether that still is the newest one. renew() and replace()
// make another table the newest, and let every thread of the process pass a memory barrier. So either the look sees the
// new table, and the pin is taken there instead; or the pin was counted before they returned, and none_before() sees
// it. Once an older table counts no pin, it never has one again: there is none to copy. So it is retired, and may be
// used again.
//
// A store whose packed records are not compressed has a table for each of its engines, and one for each call of
// oldest() behind which a version was closed: so a program that asks now and then learns about when a pin was taken.
//
// Threads: any, but for begin(), the destructor and retire(). Cost: take() that of pin_table, and two reads. renew() a
// system call; the others 144 cache lines for each table that has pins.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "icecore/options.hpp"
#include "icecore/pin.hpp"
#include "store/read/pin_table.hpp"
#include "stratum/frames/frame_cache.hpp"

namespace icecore::detail {

class [[gnu::visibility("hidden")]] current_pins final : public stratum::viewers {
 public:
  current_pins() = default;
  ~current_pins() override { retire(); }
  current_pins(const current_pins&) = delete;
  current_pins& operator=(const current_pins&) = delete;

  /// The first table. Throws std::bad_alloc.
  void begin(const store_core& core, pin_table::memory views_lead_into);
  [[nodiscard, gnu::always_inline]] pin take() const noexcept {
    for (;;) {
      pin_table* const newest = newest_.load(std::memory_order_acquire);
      newest->take();
      // acquire: what renew()'s caller did before
      if (newest_.load(std::memory_order_acquire) == newest) [[likely]]
        return pin::adopt(newest);
      newest->release();
    }
  }
  /// Whether pins that are taken now are on this engine, of which the caller has a pin.
  [[nodiscard, gnu::always_inline]] bool are_on(const store_core& core) const noexcept {
    // seq_cst: behind the clock that the caller has read (opened_store::hold_for). A table that is used again meanwhile
    // is of another engine, or of this one once more: then the answer holds later.
    return newest_.load(std::memory_order_seq_cst)->core() == &core;
  }
  /// The table of another engine, made before that is the current one.
  class next_table;
  [[nodiscard]] static next_table prepare(const store_core& core, pin_table::memory views_lead_into);
  /// From now on pins are on its engine. Returns the number of its first table, as renew().
  std::optional<std::uint64_t> replace(next_table next) noexcept;
  /// When the oldest table that counts a pin began: its pins were taken then, or later.
  struct beginning {
    version open;  ///< the version that was open
    std::chrono::steady_clock::time_point at;
  };
  /// Empty if there is no pin. Pins that are taken from now on are told apart from earlier ones, while fewer than
  /// `tables_max` tables have pins.
  [[nodiscard]] std::optional<beginning> oldest();
  /// The core ends: pin_table::retire() for all tables.
  void retire() noexcept;
  /// Never less than the number of pins at some moment of the call.
  [[nodiscard]] std::uint64_t live() const noexcept;

  std::optional<std::uint64_t> renew() override;
  bool none_before(std::uint64_t number) override;
  [[nodiscard]] bool any() const override { return live() != 0; }

 private:
  static constexpr std::size_t tables_max = 64;  // 9 KiB each
  struct numbered {
    std::uint64_t number;
    pin_table* table;
    beginning since;
  };
  [[nodiscard]] static beginning now_in(const store_core& core);
  void drop_unpinned();
  std::optional<std::uint64_t> begin_table(next_table next) noexcept;  ///< under the lock

  mutable std::mutex mutex_;  // of what follows
  const store_core* core_ = nullptr;
  pin_table::memory memory_;
  std::atomic<pin_table*> newest_{nullptr};
  std::uint64_t number_ = 1;   // of the newest table
  beginning since_{};          // the newest table
  std::list<numbered> older_;  // those that had pins when they were last counted
};

class current_pins::next_table {
 public:
  next_table(const store_core& core, pin_table::memory views_lead_into)
      : core_(&core), memory_(std::move(views_lead_into)), place_(1), table_(&pin_table::open(core, memory_)) {}

 private:
  friend current_pins;
  struct retired {
    void operator()(pin_table* unused) const noexcept { unused->retire(); }
  };

  const store_core* core_;
  pin_table::memory memory_;
  std::list<numbered> place_;  ///< for the table before
  std::unique_ptr<pin_table, retired> table_;
};

}  // namespace icecore::detail
