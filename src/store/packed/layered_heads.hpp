// Which histories a kind of heads has: those of the young generation alone, or those that go on in strata. Decided
// once, by the type of the engine (store/engine.hpp).
#pragma once

#include "history/history.hpp"
#include "store/packed/layered_histories.hpp"

namespace icecore::detail {

/// Heads of a store that was packed: the young generation has `Heads`.
template <class Heads>
struct layered {
  static constexpr bool are_durable = Heads::are_durable;
  static constexpr bool run_ahead_of_clock = Heads::run_ahead_of_clock;
};

template <class Heads>
class histories_of {
 public:
  using young = basic_histories<Heads>;
  using all = young;
  static constexpr bool are_layered = false;

  histories_of(const young& histories, const stratum::strata* /*none*/) noexcept : all_(&histories) {}
  [[nodiscard]] const all* operator->() const noexcept { return all_; }
  [[nodiscard]] const all& operator*() const noexcept { return *all_; }

 private:
  const all* all_;
};

template <class Heads>
class histories_of<layered<Heads>> {
 public:
  using young = basic_histories<Heads>;
  using all = layered_histories<Heads>;
  static constexpr bool are_layered = true;

  histories_of(const young& histories, const stratum::strata* packed) noexcept : all_(histories, *packed) {}
  [[nodiscard]] const all* operator->() const noexcept { return &all_; }
  [[nodiscard]] const all& operator*() const noexcept { return all_; }

 private:
  all all_;
};

}  // namespace icecore::detail
