// How a process that is attached has the store packed. It asks the process that opened the store, which alone knows
// what space is free; that one packs the store and answers. This is what they tell each other, in the memory that they
// share (docs/design/0036-compaction-of-shared-stores.md).
//
//   the asker (compaction_asker.cpp)                    the opener (compaction_answerer.cpp)
//
//   takes `asking`
//   writes `wanted`
//   asked = n              ------------------------->   finds asked != answered, reads `wanted`, packs the store
//   tells its caller       <-------------------------   done, total
//   cancelled = n, perhaps ------------------------->   looks there, and whether the asker lives, and cuts it off
//                          <-------------------------   writes `answer`; answered = n
//   reads `answer`, gives `asking` back
//
// Threads: one asker at a time, which holds `asking`; one thread of the opener.
// Kills: an asker that is killed leaves `asking`, which is robust, and perhaps a request. The next asker waits until
//   that one is answered. An opener that is killed leaves a request without an answer: each asker looks again and again
//   whether the opener lives, and so does one that waits for `asking`.
// Invariants:
//   Q1. While asked == answered the opener reads neither `wanted` nor `answer`, and writes nothing. The holder of
//       `asking` may write all but `answered` and `served`.
//   Q2. While asked != answered the asker writes `cancelled` alone, and the opener all that it tells. The opener makes
//       them equal when its answer is written.
//   Q3. Each request has a number of its own, and begins when the one before it is answered (Q1). So nobody takes the
//       answer to another request for its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "base/locks/process_lock.hpp"
#include "icecore/compaction.hpp"

namespace icecore::detail {

struct compaction_request {
  /// Whether the opener answers.
  enum class service : std::uint32_t {
    not_yet,    ///< it is still opening the store
    there,      ///< as long as it lives, and has the store open
    no_thread,  ///< it could make none
  };
  enum class outcome : std::uint32_t {
    done,
    failed,  ///< an icecore::error
    no_memory,
    closed,     ///< the opener closes the store
    cancelled,  ///< by the asker, or it was killed
  };
  /// compaction_options, without functions.
  struct options {
    bool whole;
    bool dry_run;
    bool only_if_expiring;
    icecore::compression compression;
    int compression_level;
    unsigned threads;
    std::uint64_t bytes_per_second;
    std::uint64_t bytes_at_once;
  };
  struct reply {
    outcome how;
    int code;            ///< of an error
    std::uint32_t size;  ///< of its message, which is cut if it is longer
    char message[2036];
    compaction_report report;  ///< if it is done
  };
  static_assert(std::is_trivially_copyable_v<options> && std::is_trivially_copyable_v<reply>);

  process_lock asking;  ///< held by an asker until it has its answer
  std::atomic<service> served{service::not_yet};
  std::atomic<std::uint64_t> asked{0};      ///< the number of the newest request
  std::atomic<std::uint64_t> answered{0};   ///< the number of the newest one that has an answer
  std::atomic<std::uint64_t> cancelled{0};  ///< nobody waits for the request of this number any more
  std::atomic<std::uint64_t> done{0};       ///< progress::done and total
  std::atomic<std::uint64_t> total{0};
  std::uint32_t asker = 0;  ///< the number of its process
  options wanted{};
  reply answer{};
};

}  // namespace icecore::detail
