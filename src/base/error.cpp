#include "icecore/error.hpp"

#include "icecore/version.hpp"

namespace icecore {
namespace {

class category_type final : public std::error_category {
 public:
  const char* name() const noexcept override { return "icecore"; }

  std::string message(int code) const override {
    switch (static_cast<errc>(code)) {
      case errc::invalid_argument:
        return "invalid argument";
      case errc::key_too_long:
        return "key too long";
      case errc::value_too_large:
        return "value too large";
      case errc::not_a_store:
        return "not an icecore store";
      case errc::unsupported_format:
        return "unsupported format";
      case errc::damaged:
        return "damaged";
      case errc::truncated:
        return "truncated";
      case errc::locked:
        return "locked by another process";
      case errc::no_space:
        return "no space left";
      case errc::io:
        return "input/output error";
      case errc::not_durable:
        return "durability not available";
      case errc::version_not_closed:
        return "version not closed";
      case errc::unknown_tag:
        return "unknown tag";
      case errc::tag_exists:
        return "tag exists";
      case errc::read_only:
        return "read-only store";
      case errc::closed:
        return "store closed";
      case errc::forked:
        return "used after fork";
      case errc::poisoned:
        return "store poisoned";
      case errc::copied:
        return "copied while open";
      case errc::no_such_store:
        return "no such store";
      case errc::store_exists:
        return "store exists";
      case errc::bad_input:
        return "bad input";
      case errc::permission:
        return "permission denied";
      case errc::other_cluster:
        return "another cluster";
      case errc::protection:
        return "protected";
      case errc::mpi:
        return "MPI error";
      case errc::missing_file:
        return "a file of the store is missing";
      case errc::version_lost:
        return "version lost in a power cut";
      case errc::rank_failed:
        return "a rank failed";
      case errc::crash_unknown:
        return "not known whether process or machine crashed";
      case errc::bad_token:
        return "bad token";
      case errc::query_exists:
        return "query exists";
      case errc::no_such_query:
        return "no such query";
      case errc::query_busy:
        return "query busy";
      case errc::unknown_function:
        return "unknown function";
      case errc::version_expired:
        return "version expired";
      case errc::outcome_unknown:
        return "outcome unknown";
      case errc::unavailable:
        return "unavailable";
      case errc::deadline_exceeded:
        return "deadline exceeded";
      case errc::cancelled:
        return "cancelled";
      case errc::denied:
        return "denied";
      case errc::unauthenticated:
        return "unauthenticated";
      case errc::limit_reached:
        return "limit reached";
      case errc::no_such_lease:
        return "no such lease";
      case errc::database_exists:
        return "database exists";
      case errc::not_owner:
        return "not the owner of the key";
    }
    return "unknown icecore error " + std::to_string(code);
  }

  /// Lets `e.code() == std::errc::no_space_on_device` and the like hold where the standard has an equivalent.
  std::error_condition default_error_condition(int code) const noexcept override {
    switch (static_cast<errc>(code)) {
      case errc::invalid_argument:
        return std::errc::invalid_argument;
      case errc::no_space:
        return std::errc::no_space_on_device;
      case errc::io:
        return std::errc::io_error;
      case errc::permission:
        return std::errc::permission_denied;
      case errc::no_such_store:
        return std::errc::no_such_file_or_directory;
      case errc::store_exists:
        return std::errc::file_exists;
      case errc::read_only:
        return std::errc::read_only_file_system;
      default:
        return {code, *this};
    }
  }
};

}  // namespace

const std::error_category& category() noexcept {
  static const category_type instance;
  return instance;
}

#define ICECORE_TEXT_OF(x) #x
#define ICECORE_TEXT(x) ICECORE_TEXT_OF(x)
const char* library_version() noexcept {
  return ICECORE_TEXT(ICECORE_VERSION_MAJOR) "." ICECORE_TEXT(ICECORE_VERSION_MINOR) "." ICECORE_TEXT(
      ICECORE_VERSION_PATCH);
}

}  // namespace icecore
