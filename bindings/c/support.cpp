#include "support.hpp"

#include <new>

namespace icecore::c {
namespace {

thread_local std::string last_message;  // message of the last failure, unless there was no memory for it
thread_local const char* last_message_text = "";

void note(std::string_view message) noexcept {
  try {
    last_message = message;
    last_message_text = last_message.c_str();
  } catch (...) {
    last_message_text = "out of memory while keeping the message of an error";
  }
}

}  // namespace

int code_of_current_exception() noexcept {
  try {
    throw;
  } catch (const error& failure) {
    note(failure.message());
    return failure.code().value();
  } catch (const stopped_by_callback&) {
    last_message_text = "a callback asked to stop";
    return ICECORE_STOPPED;
  } catch (const std::bad_alloc&) {
    last_message_text = "out of memory";
    return ICECORE_NO_MEMORY;
  } catch (const std::exception& failure) {
    note(failure.what());
    return ICECORE_SYSTEM;
  } catch (...) {
    note("an unknown exception was thrown");
    return ICECORE_SYSTEM;
  }
}

void throw_null(const char* function, const char* argument) {
  throw error(errc::invalid_argument, std::string(function) + ": " + argument + " is NULL; pass a valid pointer");
}

key_bounds bounds(const void* from, std::size_t from_size, const void* to, std::size_t to_size, const char* function) {
  key_bounds result;
  if (from != nullptr || from_size != 0) result.from = view(from, from_size, function, "from");
  if (to != nullptr || to_size != 0) result.to = view(to, to_size, function, "to");
  return result;
}

void check_structure(const void* structure, std::size_t size, std::size_t known_size, const char* function) {
  if (size < sizeof(std::size_t)) {
    throw error(errc::invalid_argument, std::string(function) + ": struct_size is " + std::to_string(size) +
                                            "; set it to the sizeof of the structure");
  }
  const char* byte = static_cast<const char*>(structure);
  for (std::size_t i = known_size; i < size; ++i) {
    if (byte[i] != 0) {
      throw error(errc::invalid_argument,
                  std::string(function) + ": the structure has " + std::to_string(size) +
                      " bytes, of which this library, " + library_version() + ", knows " + std::to_string(known_size) +
                      ", and bytes after those are not zero; use a newer library or set them to zero");
    }
  }
}

progress_function progress_of(icecore_progress_function function, void* context) {
  if (function == nullptr) return {};
  return [function, context](const progress& now) {
    const std::string what(now.what);
    const std::string unit(now.unit);
    function(context, what.c_str(), now.done, now.total, unit.c_str());
  };
}

}  // namespace icecore::c

extern "C" {

const char* icecore_library_version(void) { return icecore::library_version(); }

const char* icecore_last_error_message(void) { return icecore::c::last_message_text; }

const char* icecore_strerror(int code) {
  switch (code) {
    case ICECORE_OK:
      return "success";
    case ICECORE_INVALID_ARGUMENT:
      return "invalid argument";
    case ICECORE_KEY_TOO_LONG:
      return "key of more than 65,535 bytes";
    case ICECORE_VALUE_TOO_LARGE:
      return "value of more than 4 GiB - 1 bytes";
    case ICECORE_NOT_A_STORE:
      return "not an icecore store";
    case ICECORE_UNSUPPORTED_FORMAT:
      return "written by another version of icecore, or by a machine of other byte order";
    case ICECORE_DAMAGED:
      return "damaged: bytes on media fail their check";
    case ICECORE_TRUNCATED:
      return "truncated: the file is shorter than its root says";
    case ICECORE_LOCKED:
      return "another process has the store open";
    case ICECORE_NO_SPACE:
      return "the device or its quota is full";
    case ICECORE_IO:
      return "a system call failed";
    case ICECORE_NOT_DURABLE:
      return "the device cannot give the durability that was asked for";
    case ICECORE_VERSION_NOT_CLOSED:
      return "no tag has closed this version yet";
    case ICECORE_UNKNOWN_TAG:
      return "no such tag";
    case ICECORE_TAG_EXISTS:
      return "another version already carries this tag name";
    case ICECORE_READ_ONLY:
      return "the store was opened for reading only";
    case ICECORE_CLOSED:
      return "the store was closed";
    case ICECORE_FORKED:
      return "used in a child process after fork; open it again there";
    case ICECORE_POISONED:
      return "an earlier sync failed: reopen the store";
    case ICECORE_COPIED:
      return "the file was copied or moved while a writer had it open";
    case ICECORE_NO_SUCH_STORE:
      return "no store at this path";
    case ICECORE_STORE_EXISTS:
      return "something is already at this path";
    case ICECORE_BAD_INPUT:
      return "malformed input";
    case ICECORE_PERMISSION:
      return "the file system denies access";
    case ICECORE_OTHER_CLUSTER:
      return "the cluster has another number of ranks or ownership, or is incomplete";
    case ICECORE_PROTECTION:
      return "the cluster's protection does not allow this";
    case ICECORE_MPI:
      return "MPI is not running, or an MPI call failed";
    case ICECORE_MISSING_FILE:
      return "a file of the store is missing, or another file is in its place";
    case ICECORE_VERSION_LOST:
      return "a power cut took this version before it was durable";
    case ICECORE_RANK_FAILED:
      return "a rank of the cluster failed";
    case ICECORE_CRASH_UNKNOWN:
      return "it is unknown whether the process or its machine crashed";
    case ICECORE_BAD_TOKEN:
      return "the token is damaged, forged, or of another store or filter";
    case ICECORE_QUERY_EXISTS:
      return "another query has this name";
    case ICECORE_NO_SUCH_QUERY:
      return "no query has this name";
    case ICECORE_QUERY_BUSY:
      return "the query runs elsewhere";
    case ICECORE_UNKNOWN_FUNCTION:
      return "a function of the caller is missing or of another revision";
    case ICECORE_NO_MEMORY:
      return "out of memory";
    case ICECORE_SYSTEM:
      return "the system denied a request";
    case ICECORE_STOPPED:
      return "stopped by a callback";
    default:
      return "not an icecore error code";
  }
}

}  // extern "C"
