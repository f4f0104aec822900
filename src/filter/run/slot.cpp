#include "filter/run/slot.hpp"

#include <algorithm>
#include <cstring>

#include "filter/run/compiled.hpp"

namespace icecore::detail {

void slot::fill(const datum& one) noexcept {
  valid = one.type == kind::null ? 0 : ~0ULL;
  truth = one.type == kind::boolean && one.word != 0 ? ~0ULL : 0;
  big = one.big ? ~0ULL : 0;
  std::fill(std::begin(word), std::end(word), one.word);
  std::fill(std::begin(kinds), std::end(kinds), one.type);
  std::fill(std::begin(own_views), std::end(own_views), one.text);
  views = own_views;
}

std::string_view text_arena::copy(std::string_view text) {
  constexpr std::size_t chunk_bytes = 16 * 1024;
  while (chunk_ < chunks_.size() && chunks_[chunk_].size - used_ < text.size()) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    const std::size_t size = std::max(chunk_bytes, text.size());
    chunks_.push_back({std::make_unique<char[]>(size), size});
  }
  char* const to = chunks_[chunk_].bytes.get() + used_;
  if (!text.empty()) std::memcpy(to, text.data(), text.size());
  used_ += text.size();
  return {to, text.size()};
}

scratch::scratch() = default;
scratch::scratch(scratch&&) noexcept = default;
scratch& scratch::operator=(scratch&&) noexcept = default;
scratch::~scratch() = default;

std::vector<slot>& scratch::slots_of(const compiled& program) {
  const auto found =
      std::find_if(frames_.begin(), frames_.end(), [&](const auto& one) { return one->program == program.number_; });
  if (found != frames_.end()) {
    std::swap(*found, frames_.front());
    return frames_.front()->slots;
  }
  if (frames_.size() < frames_max) frames_.push_back(std::make_unique<frame>());
  std::swap(frames_.back(), frames_.front());
  frame& made = *frames_.front();
  made.program = 0;
  made.slots.assign(program.slots_, slot());
  for (const instruction& step : program.steps_) {
    if (step.op == operation::constant && step.slot < program.slots_) made.slots[step.slot].fill(step.literal);
  }
  made.program = program.number_;
  return made.slots;
}

}  // namespace icecore::detail
