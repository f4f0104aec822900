// What a writer leaves in its segment, and where it gets segments from.
#include "store/write/writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "icecore/error.hpp"
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

/// Of the first generation of a store with the persistent index. Counts how often a writer asks.
class own_segments final : public segment_source {
 public:
  explicit own_segments(pool_set& in) noexcept : pool_(&in) {}
  [[nodiscard]] segment_tail change(unsigned /*writer*/, const segment_tail& /*remaining*/,
                                    const record_totals& /*since_opening*/, version /*newest*/, std::uint64_t bytes,
                                    std::uint16_t in) override {
    ++asked;
    const segment fresh = pool_->allocate(bytes, in);
    return {fresh, fresh.first_record()};
  }
  void for_each_left(const std::function<void(const segment_tail&)>& /*visit*/) const override {}

  unsigned asked = 0;

 private:
  pool_set* pool_;
};

class own_recovery final : public dead_writer_recovery {
 public:
  void roll_forward(unsigned /*writer*/, writer_slot& /*slot*/) override { ++asked; }
  void roll_back(unsigned /*writer*/, const std::function<bool(std::string_view, link)>& /*never_shown*/) override {
    ++asked;
  }

  unsigned asked = 0;
};

/// Two processes' writers of one store: the first one packs it, and the second one attaches.
class attaching_writers : public ::testing::Test {
 protected:
  ~attaching_writers() override {
    for (const int file : files_) ::close(file);
  }
  /// Of a process that is dead by now.
  void leave_a_leased_writer() {
    constexpr std::uint64_t dead = 77;
    shared_.writers.slots[5].sequence = dead << writer_slot::process_shift | 1;
  }
  static bool is_shown_to_nobody(std::string_view /*key*/, link /*entry*/) { return true; }

  const scratch folder_{place::tmpfs};
  pool_set pools_{folder_ / "shared.ice",
                  setting{.where = place::tmpfs, .durability = durability::operation}.options()};
  const std::array<int, 2> files_{opened(), opened()};
  index::arena memory_{{.file = files_[0], .locks = files_[1]}};
  detail::shared_state& shared_ = detail::shared_state::make_in(memory_);
  writer_set packs_{pools_, memory_, shared_.writers};
  writer_set attaches_{pools_, memory_, shared_.writers};
  own_segments segments_{pools_};
  own_recovery recovery_;

 private:
  [[nodiscard]] int opened() const { return ::open((folder_ / "common").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); }
};

TEST_F(attaching_writers, use_segments_and_recovery_of_the_generation_that_these_were_made_for) {
  attaches_.use(segments_, recovery_, attaches_.generation());
  { writer_lease(attaches_)->reserve(100); }
  EXPECT_EQ(segments_.asked, 1U);
  leave_a_leased_writer();
  attaches_.roll_back_dead_writers(is_shown_to_nobody);
  EXPECT_EQ(recovery_.asked, 1U);
  attaches_.recover_dead_writers();
  EXPECT_EQ(recovery_.asked, 2U);
}

/// The store is packed between the moment when the second process has found its generation and when it is attached.
TEST_F(attaching_writers, use_neither_in_a_generation_that_has_come_meanwhile) {
  const std::uint64_t found = attaches_.generation();
  {
    const writer_set::gate stopped(packs_);
    packs_.prepare_generation({});
    packs_.begin_generation(found + 1, 0);
  }
  attaches_.use(segments_, recovery_, found);
  { writer_lease(attaches_)->reserve(100); }
  EXPECT_EQ(segments_.asked, 0U);
  leave_a_leased_writer();
  attaches_.roll_back_dead_writers(is_shown_to_nobody);  // for a reader of the generation that it has found
  EXPECT_FALSE(pools_.persist().poisoned());
  try {
    attaches_.recover_dead_writers();
    ADD_FAILURE() << "nobody knows what to do with a writer of that generation";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), errc::poisoned);
  }
  EXPECT_EQ(recovery_.asked, 0U);
}

}  // namespace
}  // namespace icecore::testing
