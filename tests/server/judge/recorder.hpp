// Histories for the checker: what clients asked, what they were answered, and when; one JSON object a line.
//
//   {"kind":"history","rule":"write"}                                     the first line
//   {"kind":"write","client":1,"call":17,"return":29,"conditions":[{"key":"k1","is":"version_is","version":4}],
//    "then":[{"what":"put","key":"k1","value":"a"}],"otherwise":[],"succeeded":true,"version":5,
//    "results":[{"is":"done","rows":[],"count":0,"more":false}]}
//   {"kind":"find",...,"key":"k1","found":true,"rows":[{"key":"k1","value":"a","version":5}]}
//   {"kind":"scan",...,"from":"","end":"k7","rows":[...],"version":9}     an empty end: none
//   {"kind":"quiet",...}                   a scan of everything while nobody else asks anything: it ends a round
//   {"kind":"watch","watch":3,"after":0,"from":"","end":""}  {"kind":"told","watch":3,"told":5,"rows":[...]}
//
// Times are nanoseconds of a clock that never jumps; "return":0 of a write: nobody knows what became of it.
// Threads: a log belongs to one thread; the recorder takes logs one after the other.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "judge/target.hpp"

namespace icecore::judge {

[[nodiscard]] std::int64_t now_ns();

/// The lines of one thread.
class event_log {
 public:
  explicit event_log(int client) : client_(client) {}
  /// `outcome` null: unknown.
  void write(const service::transaction& asked, const service::outcome* outcome, std::int64_t call);
  void find(const std::string& key, const std::optional<service::row>& found, std::int64_t call);
  void scan(const char* kind, const icecore::key_bounds& bounds, const scanned& came, std::int64_t call);
  void watch(int number, icecore::version after, const icecore::key_bounds& bounds);
  void told(int number, const watch_part& part);

  [[nodiscard]] std::vector<std::string> take() { return std::move(lines_); }

 private:
  const int client_;
  std::vector<std::string> lines_;
};

class history_file {
 public:
  history_file(const std::string& path, const std::string& rule);
  void add(event_log& log);
  /// Throws std::runtime_error if something could not be written.
  void close();

 private:
  std::ofstream out_;
};

}  // namespace icecore::judge
