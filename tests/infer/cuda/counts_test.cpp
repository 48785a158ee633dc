// Tests the emulator's operation counts on kernels whose counts can be computed by hand.
#include "tests/infer/cuda/host/counts.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

#include "tests/infer/cuda/counted_kernels.h"
#include "tests/infer/cuda/host/emulator.h"
#include "tests/infer/cuda/support.h"

namespace folio::infer::gpu {
namespace {

using host::Counts;
using host::CountScope;

/// A test that runs in every order of threads, since counts must not depend on the order.
class Counting : public ::testing::TestWithParam<host::Order> {
 protected:
  template <typename... Parameters, typename... Arguments>
  Counts count(void (*kernel)(Parameters...), Grid grid, unsigned threads, Arguments... arguments) {
    const CountScope scope;
    launch(kernel, grid, {threads}, 0, stream_, arguments...);
    return scope.counts();
  }

  host::OrderScope order_{GetParam()};
  Stream stream_{0};
  DeviceMemory x_ = test::on_device(stream_, std::vector<float>(4096, 1.0F));
  DeviceMemory y_ = test::unwritten(stream_, 4096 * sizeof(float));
  float* x = x_.as<float>();
  float* y = y_.as<float>();
};

INSTANTIATE_TEST_SUITE_P(Orders, Counting, ::testing::ValuesIn(host::all_orders(1)),
                         ::testing::PrintToStringParamName());

TEST_P(Counting, AWarpThatReadsSideBySideReadsFourSectors) {
  const Counts c = count(test::copy, {4}, 256U, y, x, 1000U);
  EXPECT_EQ(c.launches, 1U);
  EXPECT_EQ(c.blocks, 4U);
  EXPECT_EQ(c.block_threads, 256U);
  EXPECT_EQ(c.loaded_bytes, 4000U);
  EXPECT_EQ(c.stored_bytes, 4000U);
  EXPECT_EQ(c.load_requests, 32U);  // the last request has 8 active lanes
  EXPECT_EQ(c.store_requests, 32U);
  EXPECT_EQ(c.load_sectors, 125U);  // 4000 bytes in sectors of 32
  EXPECT_EQ(c.store_sectors, 125U);
  EXPECT_EQ(c.distinct_sectors, 250U);
  EXPECT_EQ(c.divergent_branches, 1U);  // at i < n, in the warp of elements 992 to 1023
  EXPECT_EQ(c.shared_requests, 0U);
  EXPECT_EQ(c.barriers, 0U);
}

TEST_P(Counting, SectorsFollowTheStride) {
  for (const auto& [stride, sectors] :
       std::vector<std::pair<unsigned, unsigned>>{{0, 1}, {1, 4}, {2, 8}, {8, 32}, {32, 32}}) {
    EXPECT_EQ(count(test::gather, {}, 32U, y, x, 0U, stride).load_sectors, sectors) << stride;
  }
  EXPECT_EQ(count(test::gather, {}, 32U, y, x, 1U, 1U).load_sectors, 5U);  // misaligned by one element
}

TEST_P(Counting, WideAccessesReadSixteenBytesALane) {
  const Counts c = count(test::copy_words, {}, 32U, y_.as<Words>(), x_.as<Words>());
  EXPECT_EQ(c.loaded_bytes, 512U);
  EXPECT_EQ(c.load_requests, 1U);
  EXPECT_EQ(c.load_sectors, 16U);
}

TEST_P(Counting, BankConflictsFollowTheStride) {
  // The store and the load each have n - 1 conflicts, where n is the maximum number of lanes that access one bank.
  for (const auto& [stride, conflicts] :
       std::vector<std::pair<unsigned, unsigned>>{{1, 0}, {2, 1}, {4, 3}, {32, 31}, {33, 0}}) {
    const Counts c = count(test::shared_stride, {}, 32U, y, stride);
    EXPECT_EQ(c.shared_requests, 2U);
    EXPECT_EQ(c.bank_conflicts, 2 * conflicts) << stride;
    EXPECT_EQ(c.shared_wavefronts, 2 + 2 * conflicts) << stride;
    EXPECT_EQ(c.barriers, 1U);
    EXPECT_EQ(c.shared_bytes, 1056 * sizeof(float));
  }
}

TEST_P(Counting, WideSharedAccessesNeedAWavefrontAQuarter) {
  const Counts c = count(test::shared_words, {}, 32U, y_.as<Words>(), x_.as<Words>());
  EXPECT_EQ(c.shared_requests, 2U);
  EXPECT_EQ(c.shared_wavefronts, 8U);
  EXPECT_EQ(c.bank_conflicts, 0U);
}

TEST_P(Counting, BothSidesOfABranchAreRequestsOfTheirOwn) {
  const Counts c = count(test::branch, {}, 32U, y);
  EXPECT_EQ(c.divergent_branches, 1U);
  EXPECT_EQ(c.store_requests, 3U);  // one by even lanes, one by odd lanes, one by all
  EXPECT_EQ(c.store_sectors, 12U);
  EXPECT_EQ(c.stored_bytes, 64 * sizeof(float));
  EXPECT_LT(c.active_share(), 1.0);
}

TEST_P(Counting, LanesOfALoopStayTogetherUntilTheyLeaveIt) {
  const Counts c = count(test::loop, {}, 32U, y, x);
  EXPECT_EQ(c.load_requests, 32U);  // iteration i: the lanes from i on read x[i]
  EXPECT_EQ(c.load_sectors, 32U);
  EXPECT_EQ(c.loaded_bytes, 32 * 33 / 2 * sizeof(float));
  EXPECT_EQ(c.divergent_branches, 31U);  // one lane leaves after each iteration but the last
  EXPECT_EQ(c.store_requests, 1U);       // after the loop, all lanes store together
}

TEST_P(Counting, LanesThatSkipAnIterationMeetTheOthersInTheNext) {
  const Counts c = count(test::skips, {}, 32U, y, x, 8U);
  EXPECT_EQ(c.load_requests, 8U);
  EXPECT_EQ(c.loaded_bytes, 8 * 16 * sizeof(float));
  EXPECT_EQ(c.divergent_branches, 8U);
}

TEST_P(Counting, MultiplyAddsAndShuffles) {
  const Counts c = count(test::multiply_add, {}, 128U, y, x);
  EXPECT_EQ(c.multiply_adds, 128U);
  EXPECT_EQ(c.shuffles, 4U);
  EXPECT_EQ(c.divergent_branches, 0U);
  EXPECT_EQ(c.active_share(), 1.0);
}

TEST_P(Counting, TraceHasTheAddressesOfEachLane) {
  const CountScope scope({.block = 1, .warp = 1});
  launch(test::copy, {4}, {64}, 0, stream_, y, x, 256U);
  ASSERT_EQ(scope.trace().size(), 2U);
  const host::WarpAccess& load = scope.trace()[0];
  EXPECT_FALSE(load.store);
  EXPECT_FALSE(load.shared);
  EXPECT_EQ(load.active, kAllLanes);
  for (size_t lane = 0; lane < 32; ++lane) EXPECT_EQ(load.address[lane], std::bit_cast<uint64_t>(x + 96 + lane));
  EXPECT_EQ(host::place_of(load).substr(0, 19), "counted_kernels.cu:");
}

}  // namespace
}  // namespace folio::infer::gpu
