// The update functions of a rank, by number, and the exclusive right to run one.
//
//   table.define(7, add);
//   const auto running = table.running();      // no other thread runs one while this exists
//   running.function(7)(key, value, input, output);
//
// Threads: any number.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "icecore/cluster.hpp"

namespace icecore::mpi {

class update_table {
 public:
  /// errc::invalid_argument if the number has a function already.
  void define(int number, update_function change) {
    if (!change) throw error(errc::invalid_argument, "an update function is empty");
    const std::scoped_lock lock(mutex_);
    if (functions_.try_emplace(number, std::move(change)).second) return;
    throw error(errc::invalid_argument, "the number " + std::to_string(number) + " already has an update function");
  }

  class run {
   public:
    explicit run(update_table& table) : lock_(table.mutex_), functions_(table.functions_) {}
    /// errc::invalid_argument if the number has no function.
    [[nodiscard]] const update_function& function(int number) const {
      const auto found = functions_.find(number);
      if (found != functions_.end()) return found->second;
      throw error(errc::invalid_argument,
                  "no update function has the number " + std::to_string(number) + ": all ranks define it first");
    }

   private:
    std::scoped_lock<std::mutex> lock_;
    const std::map<int, update_function>& functions_;
  };
  [[nodiscard]] run running() { return run(*this); }

 private:
  std::mutex mutex_;
  std::map<int, update_function> functions_;
};

}  // namespace icecore::mpi
