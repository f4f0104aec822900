// Memory that an MPI request reads or writes. The thread that waits for the request may have to give up before it is
// done. MPI may still use the memory then, so it is never freed.
//
//   request_memory memory(size);
//   MPI_Iallreduce(..., memory.data(), ...);
//   ...                                       // if done: nothing to do; if given up:
//   memory.abandon();
//
// Threads: one object by one at a time.
#pragma once

#include <cstddef>
#include <memory>

namespace icecore::ranks {

class request_memory {
 public:
  request_memory() noexcept = default;
  /// Uninitialised. Large blocks are reused (kept_memory.hpp).
  explicit request_memory(std::size_t size);

  [[nodiscard]] char* data() noexcept { return block_ ? block_->bytes() : nullptr; }
  [[nodiscard]] const char* data() const noexcept { return block_ ? block_->bytes() : nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return block_ ? block_->size : 0; }
  /// Keeps the memory until the process ends; this object then has none.
  void abandon() noexcept;

 private:
  struct alignas(std::max_align_t) block {
    block* next;  // links the abandoned blocks, so that leak checkers find them
    std::size_t size;
    std::size_t capacity;
    [[nodiscard]] char* bytes() noexcept { return reinterpret_cast<char*>(this + 1); }
  };
  struct free_block {
    void operator()(block* freed) const noexcept;
  };

  [[nodiscard]] static block* new_block(std::size_t size);

  std::unique_ptr<block, free_block> block_;
};

}  // namespace icecore::ranks
