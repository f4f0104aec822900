#include "database.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace papyruskv {
namespace {

using icecore::errc;
using icecore::error;

/// The size of the buffer that update functions may write to in place, as in PapyrusKV.
constexpr std::size_t update_buffer_size = std::size_t{32} << 20;

/// The caller's bytes as they are sent: the size of the output it wants, and the input.
std::string pack(std::string_view input, std::uint64_t output_size) {
  std::string packed(sizeof output_size, '\0');
  std::memcpy(packed.data(), &output_size, sizeof output_size);
  return packed.append(input);
}

}  // namespace

icecore::ownership ownership_by(papyruskv_hash_fn_t hash) {
  if (hash == nullptr) return icecore::ownership::by_hash();
  return icecore::ownership::by_function("papyruskv", [hash](std::string_view key, int ranks) {
    return hash(key.data(), key.size(), static_cast<std::size_t>(ranks));
  });
}

database::database(MPI_Comm comm, opening how, std::shared_mutex& visitors)
    : how_(std::move(how)), visitors_(visitors) {
  open(comm);
}

void database::open(MPI_Comm comm) {
  how_.options.ownership = ownership_by(how_.hash);
  const auto from = std::exchange(how_.from, std::nullopt);
  icecore::cluster opened = from ? icecore::cluster::restore(comm, *from, how_.folder, how_.options)
                                 : icecore::cluster(comm, how_.folder, how_.options);
  if (how_.protection != icecore::protection::read_write) opened.protect(how_.protection);
  const std::scoped_lock alone(visitors_);
  data_.emplace(std::move(opened));
}

icecore::cluster& database::data() {
  if (!data_) throw error(errc::closed, "the database '" + how_.name + "' was destroyed");
  return *data_;
}

bool database::hash_fits() {
  constexpr int looked_at = 64;
  icecore::cursor at = data().local().latest().cursor();
  at.seek_first();
  for (int i = 0; i < looked_at && at.valid(); ++i, at.next()) {
    try {
      if (data().owner_of(at->key) != data().rank()) return false;
    } catch (const error&) {  // it returned a number that is not a rank
      return false;
    }
  }
  return true;
}

icecore::cluster database::taken() {
  const std::scoped_lock alone(visitors_);
  icecore::cluster was = std::move(*data_);
  data_.reset();
  return was;
}

void database::close() {
  std::exception_ptr failure;
  for (std::function<void()> finish; (finish = next_event());) {
    try {
      finish();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  iterations_.clear();
  if (data_) {
    how_.protection = data_->protection();  // for open_again
    how_.options.consistency = data_->consistency();
    icecore::cluster closing = taken();
    closing.close();
  }
  if (failure) std::rethrow_exception(failure);
}

void database::open_again(MPI_Comm comm, papyruskv_hash_fn_t other) {
  how_.hash = other;
  how_.options.store.creation = icecore::creation::open_or_create;
  open(comm);
  for (const auto& [number, function] : std::exchange(updates_, {})) define_update(number, function);
}

// ---- Updates ----

void database::define_update(int number, papyruskv_update_fn_t function) {
  if (update_buffer_ == nullptr) update_buffer_ = std::make_shared_for_overwrite<char[]>(update_buffer_size);
  const auto run = [function, buffer = update_buffer_](std::string_view key, std::optional<std::string>& value,
                                                       std::string_view input, std::string& output) {
    std::uint64_t output_size = 0;
    if (input.size() < sizeof output_size)
      throw error(errc::bad_input, "an update came without the size of its output");
    std::memcpy(&output_size, input.data(), sizeof output_size);
    std::string given(input.substr(sizeof output_size));
    output.assign(output_size, '\0');
    std::size_t size = value ? value->size() : 0;
    std::unique_ptr<char[]> larger;
    if (size > update_buffer_size) larger = std::make_unique_for_overwrite<char[]>(size);
    char* bytes = larger ? larger.get() : buffer.get();
    if (value) std::copy(value->begin(), value->end(), bytes);
    if (function(key.data(), key.size(), &bytes, &size, given.data(), given.size(), output.data(), output.size()) ==
        0) {
      return false;
    }
    if (bytes == nullptr && size > 0)
      throw error(errc::invalid_argument, "an update function set the value to NULL, but its size is not 0");
    value.emplace(bytes, size);
    return true;
  };
  data().define_update(number, run);
  updates_.emplace(number, function);
}

void database::update(std::string_view key, int number, std::string_view input, void* output, std::size_t output_size) {
  const std::string answer = data().update(key, number, pack(input, output_size));
  if (output != nullptr) std::memcpy(output, answer.data(), std::min(output_size, answer.size()));
}

// ---- Events ----

int database::checkpoint(const std::filesystem::path& folder) {
  return add_event([writing = data().checkpoint(folder)] { writing.wait(); });
}

int database::add_event(std::function<void()> finish) {
  const std::scoped_lock lock(mutex_);
  events_.emplace(++last_event_, std::move(finish));
  return last_event_;
}

std::function<void()> database::next_event() {
  const std::scoped_lock lock(mutex_);
  if (events_.empty()) return {};
  return std::move(events_.extract(events_.begin()).mapped());
}

void database::wait(int event) {
  std::function<void()> finish;
  {
    const std::scoped_lock lock(mutex_);
    const auto found = events_.find(event);
    if (found == events_.end()) {
      throw error(errc::invalid_argument, "the database '" + how_.name + "' has no event " + std::to_string(event) +
                                              " to wait for; an event can be waited for once");
    }
    finish = std::move(found->second);
    events_.erase(found);
  }
  finish();
}

// ---- Iterators ----

papyruskv_iter_t database::first_local() {
  auto walk = std::make_unique<iteration>(data().local().latest());
  if (!walk->valid()) return nullptr;
  const papyruskv_iter_t shown = walk->shown();
  const std::scoped_lock lock(mutex_);
  iterations_.emplace(shown, std::move(walk));
  return shown;
}

papyruskv_iter_t database::next_local(papyruskv_iter_t at) {
  static_cast<void>(data());  // throws if it was destroyed
  const std::scoped_lock lock(mutex_);
  const auto found = iterations_.find(at);
  if (found == iterations_.end()) {
    throw error(errc::invalid_argument,
                "the iterator is not from papyruskv_iter_local of this database, or it has ended");
  }
  found->second->next();
  if (found->second->valid()) return at;
  iterations_.erase(found);
  return nullptr;
}

}  // namespace papyruskv
