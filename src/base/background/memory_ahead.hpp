// Memory that a background thread has ready before anybody needs it.
//
// Threads: wanted() from any thread, also while another one is in make_ready(); that by one thread at a time.
#pragma once

namespace icecore {

class memory_ahead {
 public:
  /// Whether so little is left that make_ready() is to be called until it returns false.
  [[nodiscard]] virtual bool wanted() const noexcept = 0;
  /// Makes a piece ready, in milliseconds even where the system gives memory slowly; whether another piece is to
  /// follow. A hint to the system: if it has no memory, whoever needs it meets the error.
  virtual bool make_ready() noexcept = 0;

 protected:
  ~memory_ahead() = default;
};

}  // namespace icecore
