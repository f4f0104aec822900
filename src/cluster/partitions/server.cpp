#include "cluster/partitions/server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/messages/pieces.hpp"
#include "cluster/messages/remote_call.hpp"
#include "cluster/partitions/remote_partition.hpp"
#include "cluster/read/fetched_stream.hpp"

namespace icecore::mpi {
namespace {

read_at unpack_read_at(unpacker& in) {
  const auto at = in.number<version>();
  return at == newest ? read_at{} : read_at{at};
}

ending unpack_ending(unpacker& in) {
  ending how;
  how.failed = unpack_failure(in);
  how.undo = in.number<std::uint8_t>() != 0;
  return how;
}

filter unpack_filter(unpacker& in) {
  const std::string_view bytes = in.text();
  return filter::from_stored(std::as_bytes(std::span(bytes)));
}

/// Breaks the cluster: a request without a tag cannot be answered.
[[noreturn]] void throw_no_request(const message& received) {
  throw error(
      errc::bad_input,
      fmt::format("rank {} sent {} bytes that are not a valid request; all ranks must run the same version of icecore",
                  received.source, received.bytes.view().size()));
}

}  // namespace

void server::answer(const message& request) {
  unpacker in(request.bytes.view());
  if (in.left() < request_header_size) throw_no_request(request);
  const auto asked = in.number<kind>();
  const int reply_tag = in.number<std::int32_t>();
  if (reply_tag < reply_tag_min || reply_tag > reply_tag_max) throw_no_request(request);
  std::string reply;
  try {
    reply = reply_to(asked, request.source, in);
    if (reply.size() > message_size_max) {
      throw error(errc::value_too_large,
                  "an answer of 2 GiB or more cannot be sent to another rank; read so large a value on its owner");
    }
  } catch (...) {
    reply = pack_current_exception();
  }
  messages_.send(request.source, reply_tag, sent_bytes(std::move(reply)));
}

std::string server::reply_to(kind asked, int source, unpacker in) {
  packer out;
  out.number(outcome::done);
  switch (asked) {
    case kind::find:
      find(in, out);
      break;
    case kind::contains: {
      const read_at at = unpack_read_at(in);
      out.number(static_cast<std::uint8_t>(own_.contains(in.text(), at)));
      break;
    }
    case kind::find_many:
      find_many(in, out);
      break;
    case kind::write:
      write(in, out);
      break;
    case kind::apply:
      apply(in, out);
      break;
    case kind::apply_if:
      apply_if(in, out);
      break;
    case kind::history:
      history(in, out);
      break;
    case kind::scan:
      scan(in, out);
      break;
    case kind::count:
      out.number(own_.count(in.number<version>()).take());
      break;
    case kind::count_filtered: {
      const auto at = in.number<version>();
      out.number(own_.count(at, unpack_filter(in)).take());
      break;
    }
    case kind::page:
      page(in, out);
      break;
    case kind::feed:
      feed(in, out);
      break;
    case kind::tags:
      tags(in, out);
      break;
    case kind::signal:
      signals_.notified(source, in.number<std::int32_t>());
      break;
    case kind::update: {
      const auto number = in.number<std::int32_t>();
      const std::string_view key = in.text();
      out.text(own_.update(key, number, in.text()));
      break;
    }
    case kind::sync:
      out.number(own_.sync().take());
      break;
    case kind::checkpoint_part: {
      const std::string_view id = in.text();
      checkpoints_.part_ended(id, source, unpack_ending(in));
      break;
    }
    case kind::checkpoint_ended: {
      const std::string_view id = in.text();
      checkpoints_.ended(id, unpack_ending(in));
      break;
    }
    default:
      throw error(errc::bad_input,
                  "a rank sent a request of an unknown kind; all ranks must run the same version of icecore");
  }
  return out.take();
}

void server::find(unpacker& in, packer& out) {
  const read_at at = unpack_read_at(in);
  const std::optional<value> found = own_.view(in.text(), at);
  constexpr std::size_t outcome_flag_and_size = 6;
  out.make_room(outcome_flag_and_size + (found ? found->size() : 0));
  out.optional_text(found ? std::optional(found->bytes()) : std::nullopt);
}

void server::find_many(unpacker& in, packer& out) {
  constexpr std::size_t answer_bytes = 64 * 1024 * 1024;  // an asker that wants more asks again
  const read_at at = unpack_read_at(in);
  std::vector<std::string_view> keys;
  while (!in.at_end()) keys.push_back(in.text());
  std::vector<std::optional<std::string_view>> found(keys.size());
  const pin holds = own_.views(keys, at, found);
  for (const auto& value : found) {
    if (out.size() > 1 && out.size() + (value ? value->size() : 0) > answer_bytes) break;
    out.optional_text(value);
  }
}

void server::write(unpacker& in, packer& out) {
  written total;
  while (!in.at_end()) own_.write_into(unpack_write(in), total);
  pack_written(out, total);
}

void server::apply(unpacker& in, packer& out) {
  batch operations;
  while (!in.at_end()) {
    const write_view one = unpack_write(in);
    one.value ? operations.insert(one.key, *one.value) : operations.remove(one.key);
  }
  out.number(own_.apply(operations));
}

void server::apply_if(unpacker& in, packer& out) {
  batch operations;
  while (!in.at_end()) {
    const write_view one = unpack_write(in);
    const auto expected = in.number<version>();
    if (!one.value) {
      operations.remove(one.key);
    } else if (expected == unconditional) {
      operations.insert(one.key, *one.value);
    } else if (expected == 0) {
      operations.insert_new(one.key, *one.value);
    } else {
      operations.replace(one.key, *one.value, expected);
    }
  }
  const auto applied = own_.apply_if(operations);
  out.number(static_cast<std::uint8_t>(applied.has_value()));
  out.number(applied.value_or(0));
}

void server::page(unpacker& in, packer& out) {
  constexpr std::size_t answer_bytes = 64 * 1024 * 1024;  // a page ends earlier if its matches take more
  const auto at = in.number<version>();
  const filter condition = unpack_filter(in);
  page_limits limits;
  limits.matches = in.number<std::uint64_t>();
  if (const auto examined = in.number<std::uint64_t>(); examined != no_limit) limits.examined = examined;
  if (const auto us = in.number<std::uint64_t>(); us != no_limit) limits.time = std::chrono::microseconds(us);
  limits.reverse = in.number<std::uint8_t>() != 0;
  limits.token_at_end = in.number<std::uint8_t>() != 0;
  limits.secret = in.text();
  const std::string_view token = in.text();
  const snapshot then = own_.at(at);
  icecore::page found = then.page(condition, limits, token);
  std::size_t bytes = 0;
  std::uint64_t fit = 0;
  for (const item& i : found.items) {
    bytes += i.key.size() + i.value.size();
    if (fit > 0 && bytes > answer_bytes) break;
    ++fit;
  }
  if (fit < found.items.size()) {
    limits.matches = fit;
    limits.time.reset();  // it was enough for more
    found = then.page(condition, limits, token);
  }
  out.number(found.examined);
  out.number(static_cast<std::uint8_t>(found.end));
  out.text(found.token);
  for (const item& i : found.items) {
    out.text(i.key);
    out.text(i.value);
  }
}

void server::feed(unpacker& in, packer& out) {
  constexpr std::size_t answer_bytes = 64 * 1024 * 1024;  // a part ends earlier if its changes take more
  feed_part_request wanted;
  wanted.where = unpack_filter(in);
  wanted.unsynced = in.number<std::uint8_t>() != 0;
  wanted.max = in.number<std::uint64_t>();
  wanted.token = in.text();
  wanted.after = in.number<version>();
  wanted.snapshot = in.number<std::uint8_t>() != 0;
  wanted.behind_key = in.optional_text();
  const feed_part part = own_.read_feed(wanted, answer_bytes);
  out.number(part.told);
  out.number(static_cast<std::uint8_t>(part.is_snapshot));
  out.text(part.token);
  for (const cluster_change& change : part.changes) {
    out.text(change.key);
    out.number(change.version);
    out.optional_text(change.value);
    out.optional_text(change.before);
    out.number(static_cast<std::uint8_t>(change.first));
  }
}

void server::history(unpacker& in, packer& out) {
  const std::string_view key = in.text();
  pack_history(own_.records(key), unpack_history_place(in), out);
}

void server::scan(unpacker& in, packer& out) {
  scan_request wanted{};
  wanted.at = in.number<version>();
  wanted.from = in.text();
  wanted.after = in.number<std::uint8_t>() != 0;
  wanted.to = in.optional_text();
  wanted.backward = in.number<std::uint8_t>() != 0;
  const std::uint32_t bytes = std::min(in.number<std::uint32_t>(), block_bytes_max);
  packer packed;
  std::string_view last_key;
  const auto items = own_.scan(wanted);
  for (; items->valid() && packed.size() < bytes; items->next()) {
    last_key = items->current().key;
    packed.text(last_key);
    packed.text(items->current().value);
  }
  out.number(static_cast<std::uint8_t>(!items->valid()));
  out.text(last_key);
  out.append(packed);
}

void server::tags(unpacker& in, packer& out) {
  packer packed;
  const auto pack = [&packed](const tag_info& tag) {
    packed.number(tag.version);
    packed.number(tag.time_ns);
    packed.text(tag.name);
    packed.text(tag.note);
  };
  bool last = true;
  if (const auto name = in.optional_text()) {
    for (const tag_info& tag : own_.tags(name)) pack(tag);
  } else {
    auto tag = own_.tag_from(in.number<version>());
    for (; tag && packed.size() < piece_bytes; tag = own_.tag_from(tag->version + 1)) pack(*tag);
    last = !tag;
  }
  out.number(static_cast<std::uint8_t>(last));
  out.append(packed);
}

}  // namespace icecore::mpi
