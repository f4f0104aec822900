// Clients that ask a target at random, and watchers beside them: what they are answered is the history.
//
//   history_file file(path, "write");
//   record(target, {.operations = 5000, .seed = 7}, file);
//
// The clients work in rounds; between two rounds one of them reads everything, so that rounds can be judged by
// themselves. Few keys, and answers that later conditions use, let operations meet.
#pragma once

#include <cstdint>
#include <functional>

#include "judge/recorder.hpp"

namespace icecore::judge {

struct recording {
  std::uint64_t operations = 5000;
  unsigned clients = 8;
  unsigned readers = 0;  ///< of the clients, those that never write
  unsigned round_operations = 1000;
  unsigned keys = 16;
  std::uint64_t seed = 1;
  bool watches = true;
  /// Called in the last round but one, while the clients ask (cuts the power); then, when they have
  /// ended, the second one. Empty: not.
  std::function<void()> break_it{};
  std::function<void()> mend_it{};
};

void record(target& subject, const recording& how, history_file& into);

}  // namespace icecore::judge
