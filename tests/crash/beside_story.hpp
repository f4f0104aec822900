// A reader beside the writer of a story: another opening of the same files, which the writer does not know of.
//
//   reader_beside reads(path, how);
//   reads.step(writer, draw);       // opens it, looks again at what it showed, refreshes it, or closes it
//
// What a version has shown it shows until it has expired for the writer and the reader refreshes; what a snapshot shows
// it shows for as long as that lives. Whatever is packed, expires and is given back beside it. Throws std::logic_error
// if not.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "content.hpp"

namespace icecore::crash {

class reader_beside {
 public:
  reader_beside(std::string path, const story_options& how) : path_(std::move(path)), how_(how) {}

  /// What was done, for people.
  std::string step(const store& writer, std::uint64_t draw);
  void close();
  /// The writer has packed the store: the next refresh shows the strata.
  void note_packed() noexcept { is_packed_since_ = true; }
  [[nodiscard]] bool is_open() const noexcept { return reader_.has_value(); }

 private:
  /// Looks at each closed version that it shows, and compares with what it showed before, and with the writer.
  void look(const store& writer);
  void take_snapshot();
  void let_go();

  std::string path_;
  story_options how_;
  std::optional<store> reader_;
  bool is_packed_since_ = false;
  std::map<version, std::uint64_t> shown_;
  std::optional<std::pair<version, std::uint64_t>> held_;  // what the snapshot shows
  std::optional<snapshot> snapshot_;                       // ends before the reader does
};

}  // namespace icecore::crash
