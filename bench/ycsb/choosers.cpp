#include "choosers.hpp"

#include <algorithm>
#include <cmath>

namespace icecore::bench::ycsb {

double zeta(std::uint64_t n, double theta) {
  constexpr std::uint64_t summed = 1000;
  const auto term = [theta](std::uint64_t i) { return std::pow(static_cast<double>(i), -theta); };
  double sum = 0;
  for (std::uint64_t i = 1; i <= std::min(n, summed); ++i) sum += term(i);
  if (n <= summed) return sum;
  // The remainder after Euler and Maclaurin: the next term of their series is below 1e-13 here.
  const auto first = static_cast<double>(summed);
  const auto last = static_cast<double>(n);
  const double integral = (std::pow(last, 1 - theta) - std::pow(first, 1 - theta)) / (1 - theta);
  const double ends = (term(n) - term(summed)) / 2;
  const double slopes = theta / 12 * (std::pow(first, -theta - 1) - std::pow(last, -theta - 1));
  return sum + integral + ends + slopes;
}

std::uint64_t fnv_hash(std::uint64_t number) noexcept {
  constexpr std::uint64_t basis = 0xcbf29ce484222325U, prime = 1099511628211U;
  std::uint64_t hash = basis;
  for (unsigned i = 0; i < sizeof number; ++i) {
    hash = (hash ^ (number & 0xff)) * prime;
    number >>= 8;
  }
  return hash;
}

zipfian::zipfian(std::uint64_t count, double theta) : count_(count), theta_(theta), zeta_count_(zeta(count, theta)) {
  set_curve();
}

void zipfian::grow(std::uint64_t count) {
  if (count <= count_) return;
  while (count_ < count) zeta_count_ += std::pow(static_cast<double>(++count_), -theta_);
  set_curve();
}

void zipfian::set_curve() {
  const double zeta_2 = 1 + std::pow(0.5, theta_);
  eta_ = (1 - std::pow(2 / static_cast<double>(count_), 1 - theta_)) / (1 - zeta_2 / zeta_count_);
}

std::uint64_t zipfian::operator()(random_numbers& random) const {
  const double drawn = unit(random);
  const double of_sum = drawn * zeta_count_;
  if (of_sum < 1) return 0;
  if (of_sum < 1 + std::pow(0.5, theta_) || count_ <= 2) return count_ < 2 ? 0 : 1;
  const double rank = static_cast<double>(count_) * std::pow(eta_ * drawn - eta_ + 1, 1 / (1 - theta_));
  return std::min(static_cast<std::uint64_t>(rank), count_ - 1);
}

}  // namespace icecore::bench::ycsb
