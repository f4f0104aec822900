#include "store/sharing/query_users.hpp"

#include <unistd.h>

#include "store/opened.hpp"

namespace icecore::detail {

std::uint64_t query_users::own_pid() noexcept { return static_cast<std::uint64_t>(::getpid()) & pid_mask; }

std::uint64_t query_users::own_word() const noexcept {
  return std::uint64_t{store_->writers->process()} << process_shift |
         (store_->shared->epoch & epoch_mask) << epoch_shift | own_pid();
}

bool query_users::is_of_earlier_opening(std::uint64_t word) const noexcept {
  return ((word ^ own_word()) >> epoch_shift & epoch_mask) != 0;
}

std::uint64_t query_users::pid_of(std::optional<std::uint64_t> word) const noexcept {
  if (!word || *word == 0 || is_of_earlier_opening(*word)) return 0;
  if (*word == own_word()) return own_pid();
  const auto process = static_cast<unsigned>(*word >> process_shift);
  return process != store_->writers->process() && store_->memory->is_held(process) ? *word & pid_mask : 0;
}

bool query_users::is_run(link head, std::optional<std::uint64_t> word) const noexcept {
  if (word && *word == own_word()) return store_->runs.has(head);
  return pid_of(word) != 0;
}

query_readers::alive_function query_users::living() const {
  return [this](unsigned process) { return process == store_->writers->process() || store_->memory->is_held(process); };
}

bool query_users::nobody_reads() const { return store_->shared->readers.nobody_reads(living()); }

query_readers::counter& query_users::own_ranges() const {
  return store_->shared->readers.counter_of(store_->writers->process(), living());
}

}  // namespace icecore::detail
