// What a writer leaves in its segment.
#include "store/write/writer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "pool/pool_set.hpp"
#include "store/shared_state.hpp"
#include "support/scratch.hpp"

namespace icecore::testing {
namespace {

/// The calls to the medium, in order: "flush", "fence". A flush of bytes other than `watched`, or of bytes that are not
/// zero yet, has a name that says so.
struct line_log {
  const std::byte* watched = nullptr;
  std::size_t size = 0;
  std::vector<std::string> asked;
};
line_log log_of_lines;

void log_flush(const void* data, std::size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  const bool covers = from <= log_of_lines.watched && from + size >= log_of_lines.watched + log_of_lines.size;
  const bool zeros = all_zero(log_of_lines.watched, log_of_lines.size);
  log_of_lines.asked.emplace_back(!covers ? "flush of other bytes" : zeros ? "flush" : "flush of what was there");
}
void log_fence() { log_of_lines.asked.emplace_back("fence"); }

class rewound_bytes : public ::testing::TestWithParam<durability> {};

TEST_P(rewound_bytes, are_zero_and_durably_so_where_others_may_count_behind_them) {
  const scratch folder;
  pool_set p(folder / "rewound.ice", setting{.where = place::tmpfs, .durability = GetParam()}.options());
  index::arena memory({});
  writer_set writers(p, memory, detail::shared_state::make_in(memory).writers);
  const record_layout layout = record_layout::of_insert(500, false);
  const writer_lease w(writers);
  const link before = w->allocate(layout);
  std::memset(p.at(before), 0x11, layout.size());
  const link fresh = w->allocate(layout);
  std::byte* bytes = p.at(fresh);
  ASSERT_TRUE(all_zero(bytes, layout.size())) << "what is allocated is zero";
  std::memset(bytes, 0xff, layout.size());

  log_of_lines = {bytes, layout.size(), {}};
  p.persist().replace_line_functions(log_flush, log_fence);
  w->rewind(fresh, layout);

  EXPECT_TRUE(all_zero(bytes, layout.size()));
  EXPECT_FALSE(all_zero(p.at(before), layout.size())) << "the record before it stays";
  if (GetParam() == durability::operation) {
    EXPECT_EQ(log_of_lines.asked, (std::vector<std::string>{"flush", "fence"}));
  } else {
    EXPECT_TRUE(log_of_lines.asked.empty());
  }
  EXPECT_EQ(w->allocate(layout), fresh) << "the place is given out again";
  w->rewind(fresh, layout);
}

std::string name_of(const ::testing::TestParamInfo<durability>& tried) {
  return setting{.where = place::tmpfs, .durability = tried.param}.name();
}

INSTANTIATE_TEST_SUITE_P(writer, rewound_bytes,
                         ::testing::Values(durability::none, durability::tag, durability::operation), name_of);

}  // namespace
}  // namespace icecore::testing
