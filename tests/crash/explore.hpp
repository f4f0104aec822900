// All crashes of a story: at each fence, sync and change of the name what a power cut may leave, at each store what a
// killed process leaves, each judged; some of them followed by a second crash in the middle of the recovery.
//
//   explorer e({.per_point = 512}, [](const failure& f) { ... });
//   e.explore(record_story(how, seed));
//
// Images are numbered through a story, nested ones too, so that one of them can be looked at again alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "check.hpp"
#include "media.hpp"
#include "story.hpp"

namespace icecore::crash {

struct explorer_options {
  std::uint64_t per_point = 4096;        ///< images of one moment, at most about; most stories take fewer, and are many
  std::uint64_t kill_one_in = 8;         ///< stores after which a kill is judged; a quarter of that in recoveries
  std::uint64_t deep_one_in = 16;        ///< images judged deeply
  std::uint64_t elsewhere_one_in = 7;    ///< images opened on another host
  std::uint64_t nest_one_in = 1024;      ///< images whose recovery is crashed again
  std::uint64_t nest_kill_one_in = 128;  ///< likewise, where the process was killed
  unsigned depth_max = 2;
  std::optional<std::uint64_t> only;  ///< judge this image alone, deeply
};

struct explored {
  std::uint64_t stories = 0;
  std::uint64_t moments = 0;
  std::uint64_t images = 0;  ///< what power cuts left
  std::uint64_t kills = 0;   ///< what killed processes left
  std::uint64_t nested = 0;  ///< of both, those left by a crash in the recovery from another, or after it
  std::uint64_t deep = 0;
  std::uint64_t exhausted = 0;  ///< moments all of whose images were judged
};

struct failure {
  std::uint64_t seed;
  std::uint64_t image;
  std::string what;
  kept_files left;  ///< the image
};

class explorer {
 public:
  explorer(const explorer_options& how, explored& into) : how_(how), into_(&into) {}

  /// The first failure, if there is one.
  [[nodiscard]] std::optional<failure> explore(const story& s);
  /// The number of the image that is being judged.
  [[nodiscard]] std::uint64_t at() const noexcept { return number_; }

 private:
  void walk(const story& s, media m, std::uint64_t per_point);
  void judge_moment(const story& s, const media& m, const expectation& e, std::size_t index, std::uint64_t per_point);
  void judge_kill(const story& s, const media& m, const expectation& e, std::size_t index);
  void judge_one(const story& s, crash_kind how, const left_files& left, const judged_by& by, std::size_t index,
                 const expectation& e, const media* continued);
  [[nodiscard]] static std::string described(const story& s, crash_kind how, std::size_t index, const expectation& e);
  void nest(const story& s, crash_kind how, const left_files& left, const judged_by& by, const expectation& e,
            const media* continued);

  explorer_options how_;
  explored* into_;
  std::mt19937_64 random_;
  std::uint64_t number_ = 0;
  std::vector<std::string> crashes_;  ///< that led to the story being walked
  std::optional<failure> failed_;
  std::uint64_t seed_ = 0;
};

}  // namespace icecore::crash
