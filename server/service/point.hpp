// Which state of a database a read asks for.
//
//   database.at(newest{});                    // the present: everything that was acknowledged before the call
//   database.at(version{17});  database.at(tag_name{"epoch-3"});  database.at(wall_time{some time});
#pragma once

#include <chrono>
#include <string>
#include <variant>

#include "icecore/options.hpp"

namespace icecore::service {

struct newest {
  friend bool operator==(newest, newest) = default;
};
struct tag_name {
  std::string name;
  friend bool operator==(const tag_name&, const tag_name&) = default;
};
/// The newest tag that is not after this time.
struct wall_time {
  std::chrono::system_clock::time_point time;
  friend bool operator==(const wall_time&, const wall_time&) = default;
};

using point = std::variant<newest, icecore::version, tag_name, wall_time>;

}  // namespace icecore::service
