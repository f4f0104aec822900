// The store against the model: random sequences of all operations, in every durability mode, with reopenings.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>

#include "base/memory/sanitizer.hpp"
#include "support/script.hpp"

namespace rc {

template <>
struct Arbitrary<icecore::testing::step> {
  static Gen<icecore::testing::step> arbitrary() {
    using icecore::testing::step;
    using kind = step::kind;
    return gen::build<step>(
        gen::set(&step::what, gen::weightedElement<kind>({{24, kind::insert},
                                                          {8, kind::remove},
                                                          {8, kind::batch},
                                                          {8, kind::tag},
                                                          {5, kind::label},
                                                          {2, kind::sync},
                                                          {2, kind::latest},
                                                          {4, kind::find},
                                                          {4, kind::seek},
                                                          {4, kind::walk},
                                                          {4, kind::range},
                                                          {3, kind::columns},
                                                          {3, kind::history},
                                                          {5, kind::diff},
                                                          {3, kind::tags},
                                                          {1, kind::misuse},
                                                          {1, kind::compare},
                                                          {2, kind::reopen},
                                                          {1, kind::reopen_read_only},
                                                          {3, kind::keep},
                                                          {3, kind::look_back},
                                                          {2, kind::crash},
                                                          {1, kind::pack},
                                                          {1, kind::retain}})),
        gen::set(&step::key, gen::inRange(0U, 1000U)), gen::set(&step::other, gen::inRange(0U, 1000U)),
        gen::set(&step::size, gen::inRange(0U, 1000U)), gen::set(&step::seed, gen::inRange(0U, 100'000U)));
  }
};

}  // namespace rc

namespace icecore::testing {
namespace {

class StoreModel : public ::testing::TestWithParam<setting> {};

TEST_P(StoreModel, does_what_an_ordered_map_with_a_past_does) {
#ifdef ICECORE_LONG_TESTS
  setenv("RC_PARAMS", "max_success=3000", /*overwrite=*/0);
#elif defined(ICECORE_UNDER_ADDRESS_SANITIZER)
  setenv("RC_PARAMS", "max_success=40", /*overwrite=*/0);  // each takes five times as long
#endif
  const bool held = rc::check("store equals model", [] {
    const auto steps = *rc::gen::scale(3.0, rc::gen::arbitrary<script>());
    const scratch folder(GetParam().where);
    lockstep both(folder / "model.ice", GetParam());
    both.run(steps);
    both.finish();
  });
  EXPECT_TRUE(held);
}

INSTANTIATE_TEST_SUITE_P(EveryDurability, StoreModel, ::testing::ValuesIn(all_settings()),
                         [](const auto& tested) { return tested.param.name(); });

}  // namespace
}  // namespace icecore::testing
