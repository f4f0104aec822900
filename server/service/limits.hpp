// What the server allows, and what it has given out: connections, bytes in flight, watches, scans.
//
//   limits l; l.connections = 10'000;
//   gauge watches("watches", l.watches);
//   const gauge::share one = watches.take(1);        // errc::limit_reached if there is none left; given back at its
//   end
//
// Every limit has a name, which errors and metrics show with its value.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace icecore::service {

struct limits {
  std::uint64_t connections = 10'000;
  std::uint64_t connections_per_user = 0;  ///< 0: no limit of its own
  std::uint64_t request_bytes = std::uint64_t{64} << 20;
  std::uint64_t in_flight_bytes = std::uint64_t{1} << 30;  ///< requests that are being answered, and their answers
  std::uint64_t output_bytes = std::uint64_t{32} << 20;    ///< of one connection
  std::uint64_t before_login_bytes = 4096;                 ///< of one connection
  /// All calls together of callers who have not logged in: log-ins, health checks, what is asked about the services.
  std::uint64_t strangers_bytes = std::uint64_t{64} << 20;
  std::uint64_t watches = 100'000;
  std::uint64_t health_watches = 1000;
  std::uint64_t transaction_operations = 128;
  std::uint64_t open_scans = 10'000;
  std::uint64_t databases = 1024;
  std::uint64_t leases = 1'000'000;
  std::uint64_t free_disk_bytes = std::uint64_t{1} << 30;  ///< writes are refused while less than this is free
  std::chrono::milliseconds read_limit{30'000};            ///< for one request to arrive
};

/// Counts what is given out of one limited thing. Threads: any number. Memory order: relaxed, since the count guards no
/// other memory.
class gauge {
 public:
  class share {
   public:
    share() noexcept = default;
    share(gauge* from, std::uint64_t amount) noexcept : from_(from), amount_(amount) {}
    share(share&& other) noexcept
        : from_(std::exchange(other.from_, nullptr)), amount_(std::exchange(other.amount_, 0)) {}
    share& operator=(share&& other) noexcept {
      if (this != &other) {
        give_back();
        from_ = std::exchange(other.from_, nullptr);
        amount_ = std::exchange(other.amount_, 0);
      }
      return *this;
    }
    ~share() { give_back(); }

    /// Takes more of the same gauge, or the first of one: errc::limit_reached, and then this is as it was.
    void take_more(gauge& from, std::uint64_t amount) {
      share more = from.take(amount);
      from_ = std::exchange(more.from_, nullptr);
      amount_ += more.amount_;
    }

   private:
    void give_back() noexcept {
      if (from_ != nullptr) from_->used_.fetch_sub(amount_, std::memory_order_relaxed);
      from_ = nullptr;
      amount_ = 0;
    }
    gauge* from_ = nullptr;
    std::uint64_t amount_ = 0;
  };

  /// `most`: 0 for no limit.
  gauge(std::string name, std::uint64_t most) : name_(std::move(name)), most_(most) {}

  /// errc::limit_reached, with the limit's name and value.
  [[nodiscard]] share take(std::uint64_t amount);
  /// False if there is not so much left.
  [[nodiscard]] bool try_take(std::uint64_t amount, share& into) noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t most() const noexcept { return most_; }
  [[nodiscard]] std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  std::string name_;
  std::uint64_t most_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> refused_{0};
};

/// The limits of which nothing is given out: a call keeps within them or is refused.
enum class kept_limit : std::uint8_t {
  connections_per_user,
  request_bytes,
  output_bytes,
  before_login_bytes,
  transaction_operations,
  databases,
  leases,
  free_disk_bytes,
  read_limit,
  quota_bytes,  ///< of the databases
};
inline constexpr std::array<std::string_view, 10> kept_limit_names{"limits.connections_per_user",
                                                                   "limits.request_bytes",
                                                                   "limits.output_bytes",
                                                                   "limits.before_login_bytes",
                                                                   "limits.transaction_operations",
                                                                   "limits.databases",
                                                                   "limits.leases",
                                                                   "limits.free_disk_bytes",
                                                                   "limits.read_limit",
                                                                   "quota_bytes"};

/// How often each of them was reached. Threads: any number. Memory order: relaxed, since it is only shown.
class refusals {
 public:
  void count(kept_limit which) noexcept { of_[index(which)].fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t of(kept_limit which) const noexcept {
    return of_[index(which)].load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t index(kept_limit which) noexcept { return static_cast<std::size_t>(which); }
  std::array<std::atomic<std::uint64_t>, kept_limit_names.size()> of_{};
};

}  // namespace icecore::service
