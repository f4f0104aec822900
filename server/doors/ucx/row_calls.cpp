// Rows in blocks: scans, histories, differences, changes.
#include <algorithm>

#include "doors/ucx/open_rows.hpp"

namespace icecore::doors {

using service::right;

namespace {

constexpr std::uint32_t block_bytes_least = 1U << 10;
constexpr std::uint32_t block_bytes_most = 4U << 20;

service::failure closed_by_client() { return {errc::cancelled, "the client has closed the rows"}; }

/// Opens rows on a thread of the service and answers with their number and their first block.
template <typename Open>
void open_and_answer(call& c, std::uint32_t block_bytes, Open open) {
  service::gauge::share scans = c.door().all.open_scans().take(1);
  // A task is copied when it is posted, and a share cannot be.
  auto held = std::make_shared<service::gauge::share>(std::move(scans));
  go_on(c.door().all.threads(), c, [open = std::move(open), block_bytes, held](call& on) {
    const auto rows = std::make_shared<open_rows>(open(on.database()), block_bytes, std::move(*held));
    wire::rows_answer& first = rows->next_block();
    if (!first.end) {
      ucx_session& session = on.session();
      const std::lock_guard lock(session.mutex);
      session.require_open();
      first.rows = session.rows.add(rows);
      rows->is_known_as(first.rows);
    }
    on.answer(wire::encoded_rows(first));
  });
}

}  // namespace

service::block_limits open_rows::limits_of(std::uint32_t block_bytes) noexcept {
  const std::uint32_t wanted = block_bytes == 0 ? wire::block_bytes_default : block_bytes;
  return {.rows = 65'536, .bytes = std::clamp(wanted, block_bytes_least, block_bytes_most)};
}

wire::rows_answer& open_rows::next_block() {
  // Used again and again: new room for a block costs more, page by page, than to fill it. A value that is larger than
  // blocks are leaves its room to nobody. The values' room goes away with the frame (encoded_rows), and the next block
  // will need about as much.
  thread_local wire::rows_answer told;
  if (told.block_of_rows.values.bytes.capacity() > 2 * block_bytes_most) told.block_of_rows = {};
  told.block_of_rows.values.bytes.reserve(values_room_);
  told.rows = handle_;
  told.block = next_;
  told.version = stream_->version();
  told.end = !stream_->next(told.block_of_rows, limits_);
  ++next_;
  const std::size_t values = told.block_of_rows.values.bytes.size();
  values_room_ = std::min<std::size_t>(values + values / 8, block_bytes_most);
  if (told.end) {
    stream_.reset();
    scans_ = {};
  }
  return told;
}

void open_rows::ask(std::unique_ptr<call> asking, std::uint64_t block, service::executor& threads) {
  {
    const std::lock_guard lock(mutex_);
    if (!over_) {
      queue_.push_back({std::move(asking), block});
      if (std::exchange(serving_, true)) return;
    }
  }
  if (asking) return asking->fail(*over_);  // `over_` does not change any more
  threads.post([self = shared_from_this()] { self->serve(); });
}

void open_rows::serve() {
  for (;;) {
    waiting next;
    {
      const std::lock_guard lock(mutex_);
      if (over_) stream_.reset();
      if (queue_.empty()) {
        serving_ = false;
        return;
      }
      next = std::move(queue_.front());
      queue_.pop_front();
    }
    next.asking->attempt([&] { answer(*next.asking, next.block); });
  }
}

void open_rows::answer(call& asking, std::uint64_t block) {
  if (!stream_) {  // asked for before the client knew of the end
    return asking.answer(wire::encoded(
        wire::rows_answer{.rows = handle_, .block = block, .end = true, .version = 0, .block_of_rows = {}}));
  }
  if (block != next_) {
    throw error(errc::invalid_argument, "the block " + std::to_string(block) + " of rows whose next one is " +
                                            std::to_string(next_) + "; blocks come once, and in their order");
  }
  wire::rows_answer& told = next_block();
  if (told.end) {
    ucx_session& session = asking.session();
    const std::lock_guard lock(session.mutex);
    session.rows.take(handle_);
  }
  asking.answer(wire::encoded_rows(told));
}

void open_rows::end(const service::failure& why) {
  std::deque<waiting> left;
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
    over_ = why;
    left.swap(queue_);
    if (!serving_) {
      stream_.reset();
      scans_ = {};
    }
  }
  for (const waiting& each : left) each.asking->fail(why);
}

void execute(call& c, wire::open_scan_request&& asked) {
  c.require(asked.bounds, right::read);
  service::scan_request what{.bounds = std::move(asked.bounds),
                             .at = std::move(asked.at),
                             .reverse = asked.reverse,
                             .limit = asked.limit,
                             .values = asked.values,
                             .versions = asked.versions};
  open_and_answer(c, asked.block_bytes, [what = std::move(what)](service::database& on) { return on.scan(what); });
}

void execute(call& c, wire::open_history_request&& asked) {
  c.require(asked.key, right::read);
  c.require_owner(asked.key);
  open_and_answer(c, asked.block_bytes,
                  [key = std::move(asked.key), up_to = std::move(asked.up_to)](service::database& on) {
                    return on.history(key, up_to);
                  });
}

void execute(call& c, wire::open_differences_request&& asked) {
  c.require(asked.bounds, right::read);
  service::difference_request what{
      .before = asked.before, .after = std::move(asked.after), .bounds = std::move(asked.bounds)};
  open_and_answer(c, asked.block_bytes,
                  [what = std::move(what)](service::database& on) { return on.differences(what); });
}

void execute(call& c, wire::open_changes_request&& asked) {
  c.require(asked.bounds, right::read);
  service::changes_request what{
      .after = asked.after, .up_to = std::move(asked.up_to), .bounds = std::move(asked.bounds), .before = asked.before};
  open_and_answer(c, asked.block_bytes, [what = std::move(what)](service::database& on) { return on.changes(what); });
}

void execute(call& c, wire::next_rows_request&& asked) {
  std::shared_ptr<open_rows> rows;
  bool ended = false;
  {
    const std::lock_guard lock(c.session().mutex);
    c.session().require_open();
    if (auto* const found = c.session().rows.find(asked.rows)) rows = *found;
    ended = !rows && c.session().rows.was_last(asked.rows);
  }
  if (ended) {  // asked for before the client knew that the rows were at their end
    return c.answer(wire::encoded(
        wire::rows_answer{.rows = asked.rows, .block = asked.block, .end = true, .version = 0, .block_of_rows = {}}));
  }
  if (!rows) {
    throw error(errc::invalid_argument, "no rows are open on this connection under the number that next_rows names");
  }
  rows->ask(c.keep(), asked.block, c.door().all.threads());
}

void execute(call& c, wire::close_rows_request&& asked) {
  std::optional<std::shared_ptr<open_rows>> closed;
  {
    const std::lock_guard lock(c.session().mutex);
    closed = c.session().rows.take(asked.rows);
  }
  if (closed) (*closed)->end(closed_by_client());
  c.answer({});
}

}  // namespace icecore::doors
