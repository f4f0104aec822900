#include "line/exit_code.hpp"

namespace icecore::cli {

exit_code exit_code_of(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument:
    case errc::key_too_long:
    case errc::value_too_large:
    case errc::read_only:
      return exit_code::usage;
    case errc::not_a_store:
    case errc::unsupported_format:
    case errc::no_such_store:
    case errc::store_exists:
      return exit_code::no_store;
    case errc::locked:
    case errc::query_busy:
      return exit_code::locked;
    case errc::damaged:
    case errc::truncated:
    case errc::copied:
    case errc::missing_file:
    case errc::crash_unknown:
      return exit_code::damaged;
    case errc::no_space:
      return exit_code::no_space;
    case errc::not_durable:
    case errc::poisoned:
      return exit_code::not_durable;
    case errc::io:
    case errc::permission:
      return exit_code::io;
    case errc::bad_input:
    case errc::bad_token:
    case errc::unknown_function:
      return exit_code::bad_input;
    case errc::version_not_closed:
    case errc::version_lost:
    case errc::unknown_tag:
    case errc::tag_exists:
    case errc::query_exists:
    case errc::no_such_query:
      return exit_code::unknown_version;
    case errc::closed:
    case errc::forked:
    case errc::other_cluster:  // these four come from clusters, which no verb opens
    case errc::protection:
    case errc::mpi:
    case errc::rank_failed:
      return exit_code::internal;
    case errc::version_expired:
      return exit_code::unknown_version;
    case errc::outcome_unknown:  // these come from servers, which no verb reaches
    case errc::unavailable:
    case errc::deadline_exceeded:
    case errc::cancelled:
    case errc::denied:
    case errc::unauthenticated:
    case errc::limit_reached:
    case errc::no_such_lease:
    case errc::database_exists:
    case errc::not_owner:
      return exit_code::internal;
  }
  return exit_code::internal;
}

}  // namespace icecore::cli
