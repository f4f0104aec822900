// The functions of papyrus/kv.h. They check arguments; platform, database and icecore::cluster do the work.
#pragma GCC visibility push(default)  // only these functions are visible outside the library
#include "papyrus/kv.h"
#pragma GCC visibility pop

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string_view>

#include "last_error.hpp"
#include "platform.hpp"

namespace papyruskv {
namespace {

using icecore::errc;
using icecore::error;

// Set between init and finalize. A plain pointer, because a program that ends without papyruskv_finalize must not wait
// for other ranks in a destructor.
std::atomic<platform*> running{nullptr};

platform& all() {
  platform* const made = running.load(std::memory_order_acquire);  // acquire: pairs with papyruskv_init
  if (made != nullptr) [[likely]]
    return *made;
  throw error(errc::closed, "papyruskv_init was not called, or papyruskv_finalize was called since");
}

database& database_of(int db) { return all().find(db); }
icecore::cluster& data_of(int db) { return database_of(db).data(); }

std::string_view bytes_of(const void* bytes, std::size_t size, const char* what) {
  if (bytes != nullptr) return {static_cast<const char*>(bytes), size};
  if (size == 0) return "";
  throw error(errc::invalid_argument, std::string(what) + " is NULL but its length is " + std::to_string(size));
}

template <typename T>
T& given(T* pointer, const char* what) {
  if (pointer != nullptr) return *pointer;
  throw error(errc::invalid_argument, std::string(what) + " is NULL");
}

std::span<const int> ranks_of(const int* ranks, int count) {
  if (count < 0 || (ranks == nullptr && count > 0)) {
    throw error(errc::invalid_argument, "the ranks are NULL, or their number is negative");
  }
  return {ranks, static_cast<std::size_t>(count)};
}

char* allocated(std::string_view value) {
  auto* const copy = static_cast<char*>(std::malloc(std::max<std::size_t>(value.size(), 1)));
  if (copy == nullptr) throw std::bad_alloc();
  return std::copy(value.begin(), value.end(), copy), copy;
}

/// Gives the caller the value, as papyruskv_get specifies. `declared`: the size of its buffers, if it gave one at
/// opening.
void deliver(std::string_view value, char** val, std::size_t* vallen, std::size_t declared) {
  // PapyrusKV does not read *vallen, so its programs may leave any value there
  const std::size_t room = declared > 0 || vallen == nullptr ? declared : *vallen;
  const bool fits = val == nullptr || *val == nullptr || value.size() <= room;
  if (val != nullptr && *val == nullptr) {
    *val = allocated(value);
  } else if (val != nullptr && fits) {
    std::copy(value.begin(), value.end(), *val);
  }
  if (vallen != nullptr) *vallen = value.size();
  if (fits) return;
  throw error(errc::invalid_argument, "the value has " + std::to_string(value.size()) +
                                          " bytes, but the buffer has only " + std::to_string(room) +
                                          (declared > 0 ? ", as opt->vallen said at opening: give a larger size there"
                                                        : ": set *vallen to the buffer's size") +
                                          ", or set *val to NULL to have one allocated");
}

int get(const char* function, int db, std::string_view key, char** val, std::size_t* vallen, papyruskv_pos_t* pos) {
  if (pos != nullptr) pos->handle = nullptr;
  database& from = database_of(db);
  const auto use = [&](std::string_view value) { deliver(value, val, vallen, from.value_size()); };
  if (!from.data().visit(key, std::ref(use))) return failed(function, "the key does not exist");
  if (pos != nullptr) pos->handle = &from;
  return PAPYRUSKV_OK;
}

/// Runs a collective call that may continue after it returns: `begin` returns its event.
template <typename Begin>
void with_event(int db, int* event, Begin&& begin) {
  const int begun = begin();
  event != nullptr ? static_cast<void>(*event = begun) : database_of(db).wait(begun);
}

}  // namespace
}  // namespace papyruskv

using namespace papyruskv;

int papyruskv_init(int* /*argc*/, char*** /*argv*/, const char* repository) {
  bool together = false;
  const auto begin = [&] {
    if (running.load(std::memory_order_acquire) != nullptr) {
      throw error(errc::invalid_argument, "it was called already");
    }
    together = mpi_runs();
    running.store(std::make_unique<platform>(repository).release(), std::memory_order_release);  // see all
  };
  const int result = call("papyruskv_init", begin);
  return refused(result, together);
}

int papyruskv_finalize(void) {
  return call("papyruskv_finalize", [] {
    platform& ending = all();
    if (!mpi_runs()) throw error(errc::mpi, "MPI is finalised already, which closed the databases");
    const std::unique_ptr<platform> owner(&ending);
    running.store(nullptr, std::memory_order_release);
    owner->finalize();
  });
}

int papyruskv_open(const char* name, int flags, papyruskv_option_t* opt, int* db) {
  bool together = false;
  const auto open = [&] {
    given(db, "db") = PAPYRUSKV_ERR;
    opening how = all().checked(name, flags, opt);
    together = true;
    *db = all().open(std::move(how));
  };
  const int result = call("papyruskv_open", open);
  return refused(result, together);
}

int papyruskv_close(int db) {
  return call("papyruskv_close", [&] { all().close(db); });
}

int papyruskv_destroy(int db, int* event) {
  return call("papyruskv_destroy", [&] { with_event(db, event, [&] { return all().destroy(db); }); });
}

int papyruskv_put(int db, const char* key, size_t keylen, const char* val, size_t vallen) {
  return call("papyruskv_put", [&] { data_of(db).insert(bytes_of(key, keylen, "key"), bytes_of(val, vallen, "val")); });
}

int papyruskv_get(int db, const char* key, size_t keylen, char** val, size_t* vallen) {
  int result = PAPYRUSKV_ERR;
  const auto work = [&] { result = get("papyruskv_get", db, bytes_of(key, keylen, "key"), val, vallen, nullptr); };
  return call("papyruskv_get", work) == PAPYRUSKV_OK ? result : PAPYRUSKV_ERR;
}

int papyruskv_get_pos(int db, const char* key, size_t keylen, char** val, size_t* vallen, papyruskv_pos_t* pos) {
  int result = PAPYRUSKV_ERR;
  const auto work = [&] { result = get("papyruskv_get_pos", db, bytes_of(key, keylen, "key"), val, vallen, pos); };
  return call("papyruskv_get_pos", work) == PAPYRUSKV_OK ? result : PAPYRUSKV_ERR;
}

int papyruskv_delete(int db, const char* key, size_t keylen) {
  return call("papyruskv_delete", [&] { data_of(db).remove(bytes_of(key, keylen, "key")); });
}

int papyruskv_free(char** val) {
  return call("papyruskv_free", [&] {
    std::free(given(val, "val"));
    *val = nullptr;
  });
}

int papyruskv_fence(int db, int level) {
  return call("papyruskv_fence", [&] { data_of(db).fence(level_of(level)); });
}

int papyruskv_barrier(int db, int level) {
  return call("papyruskv_barrier", [&] { data_of(db).barrier(level_of(level)); });
}

int papyruskv_signal_notify(int signum, int* ranks, int count) {
  return call("papyruskv_signal_notify", [&] { all().notify(signum, ranks_of(ranks, count)); });
}

int papyruskv_signal_wait(int signum, int* ranks, int count) {
  return call("papyruskv_signal_wait", [&] { all().wait(signum, ranks_of(ranks, count)); });
}

int papyruskv_consistency(int db, int consistency) {
  return call("papyruskv_consistency", [&] { data_of(db).consistency(consistency_of(consistency)); });
}

int papyruskv_protect(int db, int prot) {
  return call("papyruskv_protect", [&] { data_of(db).protect(protection_of(prot)); });
}

int papyruskv_checkpoint(int db, const char* path, int* event) {
  return call("papyruskv_checkpoint", [&] {
    if (path == nullptr || *path == '\0') throw error(errc::invalid_argument, "the path is NULL or empty");
    with_event(db, event, [&] { return database_of(db).checkpoint(path); });
  });
}

int papyruskv_restart(const char* path, const char* name, int flags, papyruskv_option_t* opt, int* db, int* event) {
  bool together = false;
  const auto restart = [&] {
    given(db, "db") = PAPYRUSKV_ERR;
    if (path == nullptr || *path == '\0') throw error(errc::invalid_argument, "the checkpoint's path is NULL or empty");
    opening how = all().checked(name, flags, opt);
    together = true;
    const int made = all().restart(path, std::move(how));
    *db = made;
    with_event(made, event, [&] { return database_of(made).add_event([] {}); });
  };
  const int result = call("papyruskv_restart", restart);
  return refused(result, together);
}

int papyruskv_wait(int db, int event) {
  return call("papyruskv_wait", [&] { database_of(db).wait(event); });
}

int papyruskv_hash(int db, papyruskv_hash_fn_t hfn) {
  return call("papyruskv_hash", [&] { all().set_hash(db, hfn); });
}

int papyruskv_iter_local(int db, papyruskv_iter_t* iter) {
  return call("papyruskv_iter_local", [&] {
    given(iter, "iter") = nullptr;
    *iter = database_of(db).first_local();
  });
}

int papyruskv_iter_next(int db, papyruskv_iter_t* iter) {
  return call("papyruskv_iter_next", [&] { *iter = database_of(db).next_local(given(iter, "iter")); });
}

int papyruskv_register_update(int db, int fnid, papyruskv_update_fn_t ufn) {
  return call("papyruskv_register_update", [&] {
    static_cast<void>(given(ufn, "ufn"));
    database_of(db).define_update(fnid, ufn);
    data_of(db).barrier();  // a rank that is asked to run it has it
  });
}

int papyruskv_update(int db, const char* key, size_t keylen, papyruskv_pos_t* /*pos*/, int fnid, void* userin,
                     size_t userinlen, void* userout, size_t useroutlen) {
  return call("papyruskv_update", [&] {
    database_of(db).update(bytes_of(key, keylen, "key"), fnid, bytes_of(userin, userinlen, "userin"), userout,
                           useroutlen);
  });
}

const char* papyruskv_error_message(void) { return last_error(); }
