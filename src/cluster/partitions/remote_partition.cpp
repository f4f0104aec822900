#include "cluster/partitions/remote_partition.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cluster/messages/pieces.hpp"
#include "cluster/read/fetched_stream.hpp"

namespace icecore::mpi {
namespace {

packer read_request(kind asked, std::string_view key, read_at at) {
  packer out(asked);
  out.number(at.value_or(newest));
  out.text(key);
  return out;
}

void check_travels(const write_view& one) {
  if (packed_size(one) + request_header_size <= message_size_max) return;
  throw error(errc::value_too_large,
              fmt::format("a key of {} and a value of {} bytes cannot be sent to another rank: with a short header "
                          "they exceed the maximum of {} bytes; insert them on their owner",
                          one.key.size(), one.value ? one.value->size() : 0, message_size_max));
}

}  // namespace

written unpack_written(unpacker& in) {
  written result;
  result.at = in.number<version>();
  result.failed = in.number<std::uint64_t>();
  result.first = unpack_failure(in);
  return result;
}

void pack_written(packer& out, const written& result) {
  out.number(result.at);
  out.number(result.failed);
  pack(out, result.first);
}

std::shared_ptr<remote_call> remote_partition::call(std::string request) {
  return std::make_shared<remote_call>(running_, owner_, std::move(request));
}

// ---- Reading ----

template <typename Use>
bool remote_partition::with_staged(std::string_view key, Use&& use) {
  // acquire, both: a reader that has seen a write of this rank return finds it counted
  if (staged_count_.load(std::memory_order_acquire) == written_count_.load(std::memory_order_acquire)) return false;
  const std::scoped_lock lock(mutex_);
  std::optional<write_view> found = staged_.find(key);
  if (!found && under_way_) found = under_way_->index.find(under_way_->call->request(), key);
  if (found) use(*found);
  return found.has_value();
}

std::optional<std::string> remote_partition::find(std::string_view key, read_at at) {
  std::optional<std::string> found;
  const auto copy = [&found](const write_view& staged) { found = staged.value; };
  if (!at && with_staged(key, copy)) return found;
  remote_call asked(running_, owner_, read_request(kind::find, key, at).take());
  unpacker in = asked.answer();
  found = in.optional_text();
  return found;
}

held_value remote_partition::hold(std::string_view key) {
  held_value found;
  const auto copy = [&found](const write_view& staged) {  // a copy: the write may be sent and disappear at any time
    if (!staged.value) return;
    const auto bytes = std::make_shared<const std::string>(*staged.value);
    found = {*bytes, bytes};
  };
  if (with_staged(key, copy)) return found;
  remote_call asked(running_, owner_, read_request(kind::find, key, std::nullopt).take());
  unpacker in = asked.answer();
  found.bytes = in.optional_text();
  if (found.bytes) found.memory = std::make_shared<const received_bytes>(asked.take());
  return found;
}

bool remote_partition::contains(std::string_view key, read_at at) {
  bool there = false;
  if (!at && with_staged(key, [&there](const write_view& staged) { there = staged.value.has_value(); })) return there;
  remote_call asked(running_, owner_, read_request(kind::contains, key, at).take());
  return asked.answer().number<std::uint8_t>() != 0;
}

namespace {

std::string find_many_request(std::span<const std::string_view> keys, read_at at) {
  packer out(kind::find_many);
  out.number(at.value_or(newest));
  for (const std::string_view key : keys) out.text(key);
  return out.take();
}

/// Unpacks the values of the answer into `out`, and returns how many there were.
std::size_t unpack_values(unpacker in, std::span<std::optional<std::string>> out) {
  std::size_t count = 0;
  for (; count < out.size() && !in.at_end(); ++count) out[count] = in.optional_text();
  return count;
}

}  // namespace

answer<found_values> remote_partition::find_many(std::vector<std::string_view> keys, read_at at) {
  auto values = std::make_shared<found_values>(keys.size());
  std::vector<std::string_view> asked_keys;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!at && with_staged(keys[i], [&](const write_view& staged) { (*values)[i] = staged.value; })) continue;
    asked_keys.push_back(keys[i]);
    places.push_back(i);
  }
  if (asked_keys.empty()) return answer<found_values>([values] { return std::move(*values); });

  auto first = call(find_many_request(asked_keys, at));
  return answer<found_values>(
      [this, values, at, asked_keys = std::move(asked_keys), places = std::move(places), first = std::move(first)] {
        found_values found(asked_keys.size());
        std::size_t done = unpack_values(first->answer(), found);
        while (done < found.size()) {  // the owner answers with as many as fit in a message
          remote_call more(running_, owner_, find_many_request(std::span(asked_keys).subspan(done), at));
          const std::size_t count = unpack_values(more.answer(), std::span(found).subspan(done));
          if (count == 0) throw error(errc::bad_input, fmt::format("rank {} sent an empty answer to a find", owner_));
          done += count;
        }
        for (std::size_t i = 0; i < places.size(); ++i) (*values)[places[i]] = std::move(found[i]);
        return std::move(*values);
      });
}

std::vector<versioned_value> remote_partition::history(std::string_view key) {
  end_calls();
  history_reader past;
  while (!past.complete()) {
    packer out(kind::history);
    out.text(key);
    pack(out, past.next());
    remote_call asked(running_, owner_, out.take());
    past.read(asked.answer());
  }
  return past.take();
}

std::unique_ptr<item_stream> remote_partition::scan(const scan_request& wanted) {
  return std::make_unique<fetched_stream>(running_, ahead_, owner_, wanted);
}

answer<std::uint64_t> remote_partition::count(version at) {
  packer out(kind::count);
  out.number(at);
  return answer<std::uint64_t>([asked = call(out.take())] { return asked->answer().number<std::uint64_t>(); });
}

namespace {

void pack(packer& out, const filter& condition) {
  const std::vector<std::byte> bytes = condition.stored();
  out.text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

answer<std::uint64_t> remote_partition::count(version at, const filter& condition) {
  packer out(kind::count_filtered);
  out.number(at);
  pack(out, condition);
  return answer<std::uint64_t>([asked = call(out.take())] { return asked->answer().number<std::uint64_t>(); });
}

cluster_page remote_partition::page(version at, const filter& condition, const page_limits& limits,
                                    std::string_view token) {
  packer out(kind::page);
  out.number(at);
  pack(out, condition);
  out.number(limits.matches);
  out.number(limits.examined.value_or(no_limit));
  out.number(limits.time ? static_cast<std::uint64_t>(limits.time->count()) : no_limit);
  out.number(static_cast<std::uint8_t>(limits.reverse));
  out.number(static_cast<std::uint8_t>(limits.token_at_end));
  out.text(limits.secret);
  out.text(token);
  remote_call asked(running_, owner_, out.take());
  unpacker in = asked.answer();
  cluster_page found;
  found.examined = in.number<std::uint64_t>();
  found.end = in.number<std::uint8_t>() != 0;
  found.token = in.text();
  while (!in.at_end()) {
    std::string key(in.text());
    found.items.emplace_back(std::move(key), in.text());
  }
  return found;
}

answer<feed_part> remote_partition::feed(const feed_part_request& wanted) {
  packer out(kind::feed);
  pack(out, wanted.where);
  out.number(static_cast<std::uint8_t>(wanted.unsynced));
  out.number(static_cast<std::uint64_t>(wanted.max));
  out.text(wanted.token);
  out.number(wanted.after);
  out.number(static_cast<std::uint8_t>(wanted.snapshot));
  out.optional_text(wanted.behind_key);
  return answer<feed_part>([asked = call(out.take())] {
    unpacker in = asked->answer();
    feed_part part;
    part.told = in.number<version>();
    part.is_snapshot = in.number<std::uint8_t>() != 0;
    part.token = in.text();
    while (!in.at_end()) {
      cluster_change& change = part.changes.emplace_back();
      change.key = in.text();
      change.version = in.number<version>();
      change.value = in.optional_text();
      change.before = in.optional_text();
      change.first = in.number<std::uint8_t>() != 0;
    }
    return part;
  });
}

std::vector<tag_info> remote_partition::tags(std::optional<std::string_view> name) {
  std::vector<tag_info> found;
  for (bool last = false; !last;) {
    packer out(kind::tags);
    out.optional_text(name);
    out.number(found.empty() ? version{0} : found.back().version + 1);
    remote_call asked(running_, owner_, out.take());
    unpacker in = asked.answer();
    last = in.number<std::uint8_t>() != 0;
    if (!last && in.at_end()) throw error(errc::bad_input, fmt::format("rank {} sent an answer without tags", owner_));
    while (!in.at_end()) {
      tag_info& tag = found.emplace_back();
      tag.version = in.number<version>();
      tag.time_ns = in.number<std::int64_t>();
      tag.name = in.text();
      tag.note = in.text();
    }
  }
  return found;
}

// ---- Writing ----

version remote_partition::write(const write_view& one) {
  written result = write_many({&one, 1}).take();
  if (result.failed != 0) result.first.raise(owner_);
  return result.at;
}

answer<written> remote_partition::write_many(std::span<const write_view> many) {
  for (const write_view& one : many) check_travels(one);
  end_calls();
  std::vector<std::shared_ptr<remote_call>> calls;
  packer out(kind::write);
  for (const write_view& one : many) {
    if (out.size() > request_header_size && out.size() + packed_size(one) > staging_bytes_) {
      calls.push_back(call(std::exchange(out, packer(kind::write)).take()));
      // one after the other: of two writes of a key the later must win (M3)
      running_.wait([&] { return calls.back()->answered(); });
    }
    pack(out, one);
  }
  calls.push_back(call(out.take()));
  return answer<written>([calls = std::move(calls)] {
    written total;
    for (const auto& each : calls) {
      unpacker in = each->answer();
      const written part = unpack_written(in);
      if (part.failed != 0) total.refuse(part.first, part.failed);
      total.at = part.at;
    }
    return total;
  });
}

version remote_partition::apply(const batch& operations) {
  packer out(kind::apply);
  for (const auto& one : operations.operations()) pack(out, {one.key, one.value});
  end_calls();
  remote_call asked(running_, owner_, out.take());
  return asked.answer().number<version>();
}

std::optional<version> remote_partition::apply_if(const batch& operations) {
  packer out(kind::apply_if);
  for (const auto& one : operations.operations()) {
    pack(out, {one.key, one.value});
    out.number(one.expected.value_or(unconditional));
  }
  end_calls();
  remote_call asked(running_, owner_, out.take());
  unpacker in = asked.answer();
  const auto applied = in.number<std::uint8_t>() != 0;
  const auto at = in.number<version>();
  return applied ? std::optional(at) : std::nullopt;
}

std::string remote_partition::update(std::string_view key, int number, std::string_view input) {
  check_travels({key, input});
  packer out(kind::update);
  out.number(static_cast<std::int32_t>(number));
  out.text(key);
  out.text(input);
  end_calls();
  remote_call asked(running_, owner_, out.take());
  unpacker in = asked.answer();
  return std::string(in.text());
}

answer<version> remote_partition::sync() {
  return answer<version>([asked = call(packer(kind::sync).take())] { return asked->answer().number<version>(); });
}

void remote_partition::signal(int signum) {
  packer out(kind::signal);
  out.number(static_cast<std::int32_t>(signum));
  remote_call asked(running_, owner_, out.take());
  static_cast<void>(asked.answer());
}

// ---- Staging ----

version remote_partition::stage(const write_view& one, version open) {
  check_travels(one);
  const auto try_to = [&] {
    const std::scoped_lock lock(mutex_);
    collect();
    const bool fits = staged_.empty() || staged_.bytes() + packed_size(one) <= staging_bytes_;
    if (!fits) send_staged();
    if (!fits && !staged_.empty()) return false;  // a batch is under way (R1)
    if (staged_.empty()) staged_since_ = std::chrono::steady_clock::now();
    staged_.append(one);
    staged_count_.fetch_add(1, std::memory_order_release);  // see with_staged
    if (staged_.bytes() >= staging_bytes_) send_staged();
    return true;
  };
  running_.wait(try_to);
  return open;
}

void remote_partition::collect() {
  if (!under_way_ || !under_way_->call->answered()) return;
  try {
    unpacker in = under_way_->call->answer();
    const written result = unpack_written(in);
    if (result.failed != 0) refused_.refuse(result.first, result.failed);
  } catch (...) {  // the owner refused the batch as a whole
    refused_.refuse(ranks::failure::of(std::current_exception()));
  }
  const std::uint64_t end = under_way_->end;
  under_way_.reset();
  written_count_.store(end, std::memory_order_release);  // see with_staged
}

void remote_partition::send_staged() {
  if (under_way_ || staged_.empty()) return;
  const auto request = std::make_shared<std::string>();
  staged_index index = staged_.take_index();
  *request = staged_.take_request();
  try {
    under_way_ = batch_under_way{std::make_unique<remote_call>(running_, owner_, request), std::move(index),
                                 staged_count_.load(std::memory_order_relaxed)};  // relaxed: under mutex_
  } catch (...) {                                                                 // not sent: the writes stay staged
    staged_.put_back(std::move(*request), std::move(index));
    throw;
  }
}

std::uint64_t remote_partition::begin_fence() {
  const std::uint64_t mark = staged_count_.load(std::memory_order_acquire);  // acquire: see with_staged
  if (mark == written_count_.load(std::memory_order_acquire)) return mark;
  const std::scoped_lock lock(mutex_);
  collect();
  send_staged();
  return mark;
}

bool remote_partition::fenced(std::uint64_t mark) {
  if (written_count_.load(std::memory_order_acquire) >= mark) return true;
  const std::scoped_lock lock(mutex_);
  collect();
  send_staged();
  return written_count_.load(std::memory_order_acquire) >= mark;
}

void remote_partition::end_calls() {
  const std::uint64_t mark = begin_fence();
  running_.wait([&] { return fenced(mark); });
}

written remote_partition::take_refused() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(refused_, written{});
}

bool remote_partition::background() {
  if (staged_count_.load(std::memory_order_acquire) == written_count_.load(std::memory_order_acquire)) return false;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return false;
  constexpr std::chrono::milliseconds staged_max{1};  // sends staged writes soon, even if no others follow
  const bool answered = under_way_ && under_way_->call->answered();
  collect();
  if (under_way_ || staged_.empty() || std::chrono::steady_clock::now() - staged_since_ < staged_max) return answered;
  send_staged();
  return true;
}

}  // namespace icecore::mpi
