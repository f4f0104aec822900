// Doubles of a database, honest and with the faults that the checker must find.
//
//   double_target d(present, disk, fault::early_reply);       // `disk` is what a power cut leaves
//   d.cut_power();                                            // calls under way fail with unavailable
//   forgetful_target f(real, 50);                             // its watches miss the 50th change
//
// A double executes each transaction in two databases with the same rule: first in the present, which a power cut
// takes, then in the one that stands for the disk. The honest one answers when both have it, and reads from the disk.
//   early_reply: answers when the present has it; the disk gets sixteen transactions at once
//   open_reads: answers as the honest one, but reads from the present
// Threads: any number.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>

#include "judge/target.hpp"

namespace icecore::judge {

enum class fault : std::uint8_t { none, early_reply, open_reads };

class double_target : public target {
 public:
  double_target(target& present, target& disk, fault which) : present_(present), disk_(disk), fault_(which) {}
  service::outcome write(service::transaction what) override;
  std::optional<service::row> find(const std::string& key) override;
  scanned scan(const icecore::key_bounds& bounds) override;
  std::unique_ptr<target_watch> watch(icecore::version after, const icecore::key_bounds& bounds) override;
  void tag() override;
  /// What the disk does not have is lost, and all calls fail until restart().
  void cut_power();
  /// From now on the disk alone answers. Precondition: no call is running.
  void restart();

 private:
  target& reads();

  target& present_;
  target& disk_;
  const fault fault_;
  std::mutex mutex_;
  std::condition_variable moved_;
  std::deque<service::transaction> behind_;  // what the disk does not have yet
  std::uint64_t executed_ = 0;
  std::uint64_t on_disk_ = 0;
  bool cutting_ = false;
  std::atomic<std::uint64_t> read_{0};
  std::atomic<bool> off_{false};
  std::atomic<bool> disk_alone_{false};
};

class forgetful_target : public target {
 public:
  forgetful_target(target& real, std::uint64_t which) : real_(real), which_(which) {}
  service::outcome write(service::transaction what) override { return real_.write(std::move(what)); }
  std::optional<service::row> find(const std::string& key) override { return real_.find(key); }
  scanned scan(const icecore::key_bounds& bounds) override { return real_.scan(bounds); }
  std::unique_ptr<target_watch> watch(icecore::version after, const icecore::key_bounds& bounds) override;
  void tag() override { real_.tag(); }

 private:
  target& real_;
  const std::uint64_t which_;
};

}  // namespace icecore::judge
