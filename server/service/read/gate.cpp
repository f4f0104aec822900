#include "service/read/gate.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "icecore/error.hpp"

namespace icecore::service {
namespace {

class gated_stream final : public row_stream {
 public:
  gated_stream(std::shared_ptr<const gate> way, std::unique_ptr<row_stream> stream)
      : way_(std::move(way)), stream_(std::move(stream)) {}
  bool next(row_block& block, const block_limits& limits) override {
    const gate::pass inside = way_->enter();
    return stream_->next(block, limits);
  }
  [[nodiscard]] icecore::version version() const noexcept override { return stream_->version(); }

 private:
  std::shared_ptr<const gate> way_;
  std::unique_ptr<row_stream> stream_;
};

}  // namespace

void gate::require_open() const {
  if (shut_.load(std::memory_order_relaxed)) {
    throw icecore::error(errc::unavailable, fmt::format("the database '{}' is closed", name_));
  }
}

// A shared_mutex lets readers pass a waiting writer: under load, nobody would ever have it alone. So whoever enters
// lets that one go first, for a tenth of a second at most: who is inside already, and is waited for, may have to enter
// again.
void gate::make_way() const {
  for (int waits = 0; awaited_.load(std::memory_order_relaxed) && waits < 1000; ++waits) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

gate::pass gate::enter_anyway() const {
  make_way();
  return pass(mutex_);
}

gate::pass gate::enter() const {
  require_open();
  pass inside = enter_anyway();
  require_open();
  return inside;
}

std::unique_lock<std::shared_mutex> gate::exclude() {
  awaited_.store(true, std::memory_order_relaxed);
  std::unique_lock alone(mutex_);
  awaited_.store(false, std::memory_order_relaxed);
  return alone;
}

std::unique_ptr<row_stream> through(std::shared_ptr<const gate> way, std::unique_ptr<row_stream> stream) {
  return std::make_unique<gated_stream>(std::move(way), std::move(stream));
}

}  // namespace icecore::service
