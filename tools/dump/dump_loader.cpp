#include "dump/dump_loader.hpp"

#include <fmt/format.h>

#include "text/progress.hpp"

namespace icecore::cli {

void dump_loader::run(std::uint64_t total_bytes) {
  progress_bar bar("loading", total_bytes != 0 ? total_bytes : header_.records, total_bytes != 0 ? "B" : "records");
  while (const auto item = from_->next()) {
    std::visit([this](const auto& it) { this->add(it); }, *item);
    bar.update(total_bytes != 0 ? from_->bytes_read() : records);
  }
  if (records != header_.records || tags != header_.tags) {
    from_->fail(fmt::format("the first line announced {} records and {} tags, but there were {} and {}",
                            header_.records, header_.tags, records, tags));
  }
  close_versions_before(header_.clock);
  into_->lose(header_.lost);
  try {
    into_->expire(header_.expired);
  } catch (const error& wrong) {
    if (wrong.code() == errc::invalid_argument) from_->fail(wrong.message());
    throw;
  }
}

void dump_loader::add(const dump_record& record) {
  close_versions_before(record.version);
  if (record.value) {
    (void)into_->insert(record.key, *record.value);
  } else if (!into_->remove(record.key)) {
    from_->fail("a record removes a key that does not exist");
  }
  ++records;
}

void dump_loader::add(const tag_info& tag) {
  close_versions_before(tag.version);
  try {
    (void)into_->tag(tag_options{.name = tag.name, .note = tag.note, .time_ns = tag.time_ns});
  } catch (const error& wrong) {
    if (wrong.code() == errc::tag_exists || wrong.code() == errc::invalid_argument) from_->fail(wrong.message());
    throw;
  }
  ++tags;
}

void dump_loader::close_versions_before(version open) {
  const version clock = into_->clock();
  if (open < clock) {
    from_->fail(fmt::format("version {} is closed already: the lines of a dump must be ordered by version", open));
  }
  try {
    into_->skip_to(open);
  } catch (const error& wrong) {
    if (wrong.code() == errc::invalid_argument) from_->fail(wrong.message());
    throw;
  }
}

}  // namespace icecore::cli
