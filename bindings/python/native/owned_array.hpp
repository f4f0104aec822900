// Makes NumPy arrays that own C++ memory; nothing is copied.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace icecore::python {

/// Keeps `owner` alive as long as the array lives.
template <typename Element, typename Stored>
nanobind::object array_over(Stored* data, std::size_t size, std::shared_ptr<const void> owner) {
  using kept = std::shared_ptr<const void>;
  auto held = std::make_unique<kept>(std::move(owner));
  const nanobind::capsule capsule(held.get(), [](void* p) noexcept { delete static_cast<kept*>(p); });
  static_cast<void>(held.release());
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, Element, nanobind::ndim<1>>(data, {size}, capsule));
}

template <typename Element, typename Stored>
nanobind::object array_of(std::vector<Stored>&& elements) {
  const auto owned = std::make_shared<std::vector<Stored>>(std::move(elements));
  return array_over<Element>(owned->data(), owned->size(), owned);
}

}  // namespace icecore::python
