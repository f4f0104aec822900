#include "rows.hpp"

#include <algorithm>
#include <tuple>

namespace icecore::remote {

namespace detail {

namespace {

constexpr std::size_t blocks_ahead_least = 2, blocks_ahead_most = 8;
constexpr std::size_t bytes_ahead_most = std::size_t{3} << 20;  // but for the least

constexpr std::chrono::milliseconds close_limit{1000};

}  // namespace

row_source::row_source(std::shared_ptr<database> of, std::size_t part, open_request what,
                       std::chrono::milliseconds deadline)
    : of_(std::move(of)), part_(part), what_(std::move(what)), deadline_(deadline) {
  open();
}

row_source::~row_source() { close(); }

void row_source::close() noexcept {
  if (all_sent_) return;
  try {  // a server that cannot be told forgets the rows with their connection
    std::ignore = begun(wire::close_rows_request{.rows = rows_}, close_limit);
  } catch (...) {
  }
}

void row_source::open() {
  ahead_.clear();
  asked_ = 1;
  const auto opening = [&](const auto& asked) {
    return std::make_unique<operation>(of_, part_, asked.number, wire::encoded(asked), true, in(deadline_));
  };
  const std::unique_ptr<operation> opened = std::visit(opening, what_);
  opened->begin();
  take(opened->wait(), opened->server());
  connection_ = opened->connection();
  ask_ahead();
  load();
}

template <class Request>
std::unique_ptr<operation> row_source::begun(const Request& asked, std::chrono::milliseconds deadline) const {
  auto made = std::make_unique<operation>(of_, part_, asked.number, wire::encoded(asked), false, in(deadline));
  made->bind(connection_);
  made->begin();
  return made;
}

void row_source::ask_ahead() {
  while (!all_sent_ && ahead_.size() < blocks_ahead_) {
    const wire::next_rows_request next{.rows = rows_, .block = asked_++};
    ahead_.push_back(begun(next, deadline_));
  }
}

void row_source::take(wire::answer&& message, const std::string& server) {
  const auto got = read_answer<wire::rows_answer_view>(message, server);
  message_ = std::move(message);
  rows_ = got.rows;
  all_sent_ = got.end;
  block_ = got.block_of_rows;
  row_ = std::min<std::size_t>(leave_out_, block_.size());
  leave_out_ -= row_;
  // Who reads a few rows is not sent many; who reads on finds them there, however late threads get a core.
  const std::size_t fitting = bytes_ahead_most / std::max<std::size_t>(message_.payload.size(), 1);
  blocks_ahead_ =
      std::clamp(fitting, blocks_ahead_least, std::clamp(blocks_ahead_ + 1, blocks_ahead_least, blocks_ahead_most));
  // Rows that are opened again are those of the version that was read so far.
  if (auto* scan = std::get_if<wire::open_scan_request>(&what_)) scan->at = got.version;
  if (auto* history = std::get_if<wire::open_history_request>(&what_); history != nullptr && given_ == 0) {
    history->up_to = got.version;
  }
}

void row_source::load() {
  while (row_ >= block_.size() && !all_sent_) {
    const std::unique_ptr<operation> next = std::move(ahead_.front());
    ahead_.pop_front();
    try {
      take(next->wait(), next->server());
    } catch (const icecore::error& why) {
      if (why.code() != errc::unavailable) throw;
      resume();
      return;
    }
    ask_ahead();
  }
}

void row_source::resume() {
  close();  // over a connection that is still there, the server has them
  all_sent_ = true;
  if (given_ > 0 && !std::visit([this](auto& asked) { return begins_behind_last(asked); }, what_)) return;
  open();
}

bool row_source::begins_behind_last(wire::open_scan_request& scan) {
  if (scan.reverse) scan.bounds.to = last_key_;
  if (!scan.reverse) scan.bounds.from = last_key_ + '\0';
  if (scan.limit > 0) {
    if (given_ >= scan.limit) return false;
    scan.limit -= given_;
  }
  given_ = 0;
  return true;
}

bool row_source::begins_behind_last(wire::open_differences_request& differences) {
  differences.bounds.from = last_key_ + '\0';
  return true;
}

// Newest first. A key may have several records of a version, and a version changes of several keys.
bool row_source::begins_behind_last(wire::open_history_request& history) {
  history.up_to = last_version_;
  leave_out_ = given_of_version_;
  return true;
}

bool row_source::begins_behind_last(wire::open_changes_request& changes) {
  changes.after = last_version_ - 1;
  leave_out_ = given_of_version_;
  return true;
}

void row_source::step() {
  if (row_ + 1 >= block_.size()) last_key_.assign(block_.key(row_));  // for rows that have to be opened again
  if (!block_.versions.empty()) {
    given_of_version_ = written() == last_version_ ? given_of_version_ + 1 : 1;
    last_version_ = written();
  }
  ++row_;
  ++given_;
  load();
}

row_merge::row_merge(std::vector<std::unique_ptr<row_source>> parts, bool reverse, bool by_version)
    : parts_(std::move(parts)), reverse_(reverse), by_version_(by_version) {
  choose();
}

bool row_merge::comes_before(const row_source& a, const row_source& b) const {
  if (by_version_ && a.written() != b.written()) return a.written() < b.written();
  return reverse_ ? a.key() > b.key() : a.key() < b.key();
}

void row_merge::choose() {
  least_ = nullptr;
  for (const auto& part : parts_) {
    if (part->at_end()) continue;
    if (least_ == nullptr || comes_before(*part, *least_)) least_ = part.get();
  }
}

void row_merge::step() {
  least_->step();
  choose();
}

namespace {

std::optional<std::string_view> value_of(const row_source& row) {
  return row.removed() ? std::nullopt : std::optional(row.value());
}
void read(const row_source& row, std::optional<icecore::item>& to) { to = icecore::item{row.key(), row.value()}; }
void read(const row_source& row, std::optional<icecore::change>& to) {
  to = icecore::change{row.written(), value_of(row)};
}
void read(const row_source& row, std::optional<icecore::difference>& to) {
  to = icecore::difference{row.key(), row.before(), value_of(row)};
}
void read(const row_source& row, std::optional<remote::key_change>& to) {
  to = remote::key_change{row.key(), row.written(), value_of(row)};
}

}  // namespace

}  // namespace detail

template <class Row>
row_range<Row>::row_range(std::shared_ptr<detail::row_merge> rows) : rows_(std::move(rows)) {
  load();
}

template <class Row>
void row_range<Row>::step() {
  rows_->step();
  load();
}

template <class Row>
void row_range<Row>::load() {
  row_.reset();
  if (const detail::row_source* at = rows_->current()) detail::read(*at, row_);
}

template class row_range<icecore::item>;
template class row_range<icecore::change>;
template class row_range<icecore::difference>;
template class row_range<key_change>;

}  // namespace icecore::remote
