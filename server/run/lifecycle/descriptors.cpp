#include "run/lifecycle/descriptors.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

namespace icecore::server {

std::uint64_t descriptors_needed(const configuration& of) {
  constexpr std::uint64_t each_database = 4;
  constexpr std::uint64_t others = 256;
  return of.limits.connections + each_database * of.limits.databases + others;
}

std::optional<std::string> raise_descriptor_limit(std::uint64_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "the limit of file descriptors cannot be read";
  if (limit.rlim_cur >= needed) return std::nullopt;  // RLIM_INFINITY is the greatest number
  limit.rlim_cur = std::min<rlim_t>(needed, limit.rlim_max);
  const bool raised = ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
  if (raised && limit.rlim_cur >= needed) return std::nullopt;
  return fmt::format(
      "limits.connections and limits.databases may need {} file descriptors, and this process can have {}; connections "
      "will be refused when they are used up; raise the hard limit (LimitNOFILE= of systemd, ulimit -Hn) or lower the "
      "limits",
      needed, limit.rlim_max);
}

}  // namespace icecore::server
