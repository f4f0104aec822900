// The persistent memory of a queryable data type: a mapped file of slots, each with one PNode of the paper, behind a
// header with the state of the filter query that is under way.
//
//   OFFSET        SIZE  MEANING
//   0             4096  header
//   4096          8 n   tombstones: keys removed during the query
//   then          slot  PNodes, `slot_size` bytes each, a multiple of 64
//
// A zeroed slot is free. `used` slots may hold something; it grows by whole blocks of slots, each time durably before
// the first of them is written.
//
// Threads: any number allocate; opening and closing is for one.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "flush.hpp"

namespace icecore::bench::pdt {

/// A PNode: an item with its state. The value's bytes follow.
struct pnode {
  std::uint64_t key;
  std::atomic<std::uint64_t> its;    ///< when it was inserted; 0: not yet
  std::atomic<std::uint64_t> dts;    ///< when it was removed; 0: not
  std::atomic<std::uint8_t> i_flag;  ///< its insertion is complete
  std::atomic<std::uint8_t> d_flag;  ///< it is removed
  std::atomic<std::uint8_t> fq;      ///< what the query's condition says of it
  std::uint8_t zeros[5];

  [[nodiscard]] char* value() noexcept { return reinterpret_cast<char*>(this + 1); }
};
static_assert(sizeof(pnode) == 32);

struct region_header {
  std::uint64_t magic;
  std::uint64_t item_size, slot_size, slots, tombstones_max;
  std::atomic<std::uint64_t> used;   ///< slots
  std::atomic<std::uint64_t> clock;  ///< a query's start moves it
  std::atomic<std::uint64_t> start;  ///< of the query that is under way; 0: none
  std::atomic<std::uint64_t> rp;     ///< number of the slot that it evaluated last, and 1; 0: none yet
  std::atomic<std::uint64_t> tombstones;
};

struct region_size {
  std::uint64_t item_size = 8;
  std::uint64_t slots = 1 << 20;  ///< as many inserts may happen between two openings
  std::uint64_t tombstones = 1 << 20;
};

class region {
 public:
  /// Makes the file, or opens it with the sizes that it was made with.
  region(const std::filesystem::path& path, const region_size& sizes) {
    const bool fresh = !std::filesystem::exists(path);
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) throw_errno(path);
    const std::uint64_t slot = (sizeof(pnode) + sizes.item_size + line_size - 1) / line_size * line_size;
    const std::uint64_t front = header_size + (sizes.tombstones * sizeof(std::uint64_t) + 4095) / 4096 * 4096;
    size_ = front + slot * sizes.slots;
    struct stat about {};
    const bool sized = fresh ? ftruncate(descriptor, static_cast<off_t>(size_)) == 0
                             : fstat(descriptor, &about) == 0 && about.st_size == static_cast<off_t>(size_);
    void* const mapping = sized ? mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : MAP_FAILED;
    ::close(descriptor);
    if (!sized) throw std::runtime_error(path.string() + ": a file of other sizes, or no space for it");
    if (mapping == MAP_FAILED) throw_errno(path);
    at_ = static_cast<char*>(mapping);
    slots_at_ = at_ + front;
    if (fresh) {
      head().item_size = sizes.item_size;
      head().slot_size = slot;
      head().slots = sizes.slots;
      head().tombstones_max = sizes.tombstones;
      head().clock.store(1, std::memory_order_relaxed);  // nobody else has it yet
      head().magic = magic;
      persist(at_, sizeof(region_header));
    } else if (head().magic != magic || head().item_size != sizes.item_size || head().slots != sizes.slots) {
      munmap(at_, size_);
      throw std::runtime_error(path.string() + ": not a file of this program, or of other sizes");
    }
  }
  ~region() { munmap(at_, size_); }
  region(const region&) = delete;
  region& operator=(const region&) = delete;

  [[nodiscard]] region_header& head() const noexcept { return *reinterpret_cast<region_header*>(at_); }
  [[nodiscard]] pnode& slot(std::uint64_t number) const noexcept {
    return *reinterpret_cast<pnode*>(slots_at_ + number * head().slot_size);
  }
  [[nodiscard]] std::uint64_t number_of(const pnode& p) const noexcept {
    return static_cast<std::uint64_t>(reinterpret_cast<const char*>(&p) - slots_at_) / head().slot_size;
  }

  /// A zeroed slot of this thread's own. Throws if there is none left.
  pnode& allocate() {
    thread_local struct {
      const region* of = nullptr;
      std::uint64_t generation = 0, next = 0, end = 0;
    } own;
    if (own.of != this || own.generation != generation_) own = {this, generation_, 0, 0};
    if (own.next == own.end) {
      const std::scoped_lock lock(allocating_);
      if (!free_.empty()) {
        const std::uint64_t number = free_.back();
        free_.pop_back();
        return slot(number);
      }
      own.next = head().used.load(std::memory_order_relaxed);  // the lock orders it
      own.end = std::min(own.next + block_slots, head().slots);
      if (own.next == own.end) throw std::runtime_error("all slots are in use: ask for more");
      head().used.store(own.end, std::memory_order_relaxed);
      persist(&head().used, sizeof(std::uint64_t));
    }
    return slot(own.next++);
  }
  /// A slot that holds nothing any more, found by recovery.
  void give_back(std::uint64_t number) {
    pnode& p = slot(number);
    p.its.store(0, std::memory_order_relaxed);  // recovery is alone
    p.dts.store(0, std::memory_order_relaxed);
    p.i_flag.store(0, std::memory_order_relaxed);
    p.d_flag.store(0, std::memory_order_relaxed);
    p.fq.store(0, std::memory_order_relaxed);
    flush(&p, sizeof p);
    free_.push_back(number);
  }

  void add_tombstone(std::uint64_t key) {
    const std::uint64_t i = head().tombstones.fetch_add(1, std::memory_order_acq_rel);
    if (i >= head().tombstones_max) throw std::runtime_error("more removes during a query than there is room for");
    tombstone(i).store(key + 1, std::memory_order_release);  // 0: being written
    flush(&tombstone(i), sizeof(std::uint64_t));
    persist(&head().tombstones, sizeof(std::uint64_t));
  }
  [[nodiscard]] std::atomic<std::uint64_t>& tombstone(std::uint64_t i) const noexcept {
    return reinterpret_cast<std::atomic<std::uint64_t>*>(at_ + header_size)[i];
  }
  /// Bytes that were ever in use.
  [[nodiscard]] std::uint64_t used_bytes() const noexcept {
    return head().used.load(std::memory_order_relaxed) * head().slot_size;
  }

 private:
  static constexpr std::uint64_t magic = 0x3154445054424349;  // "ICBTPDT1"
  static constexpr std::uint64_t header_size = 4096;
  static constexpr std::uint64_t block_slots = 256;

  [[noreturn]] static void throw_errno(const std::filesystem::path& path) {
    throw std::system_error(errno, std::generic_category(), path.string());
  }

  inline static std::atomic<std::uint64_t> generations_{0};
  std::uint64_t generation_ = ++generations_;  // a thread's block is of one region, even where another had its address
  std::uint64_t size_ = 0;
  char* at_ = nullptr;
  char* slots_at_ = nullptr;
  std::mutex allocating_;
  std::vector<std::uint64_t> free_;
};

}  // namespace icecore::bench::pdt
