// What a layer above keeps beside an open store: one object, made at its first use, which ends when the store closes.
//
//   auto& mine = core.companion([&] { return std::make_unique<query_catalog>(core); });
//
// Threads: any; the first call makes it while the others wait.
#pragma once

namespace icecore::detail {

class [[gnu::visibility("hidden")]] store_companion {
 public:
  virtual ~store_companion() = default;
};

}  // namespace icecore::detail
