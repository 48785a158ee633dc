#include "experiments/33_cuda/exercises/cuda/cuda.h"
#include "experiments/exercises/mistakes/mistakes.h"
#include "infer/cuda/numbers.h"

namespace folio::exercises {

using namespace infer::gpu;

namespace {

constexpr unsigned kThreads = 64;

enum class Wrong { None, HalfOfTheLanes, BeginsAt32, NotAdded, IfAroundAShuffle, FirstLaneOnly, OfTheBlock, OneByOne };

template <Wrong kWrong>
__device__ float warp_sum(float value, float* all) {
  using enum Wrong;
  const unsigned lane = threadIdx.x % kWarp;
  float sum = value;
  if (kWrong == OneByOne) {
    for (int from = 1; from < 32; ++from) sum += __shfl_xor_sync(kAllLanes, value, from);
    return sum;
  }
  if (kWrong == OfTheBlock) {
    all[threadIdx.x] = value;
    __syncthreads();
    sum = 0.0F;
    for (unsigned i = 0; i < blockDim.x; ++i) sum += all[i];
    return sum;
  }
  for (int distance = kWrong == HalfOfTheLanes ? 8 : kWrong == BeginsAt32 ? 32 : 16; distance > 0; distance /= 2) {
    if (kWrong == NotAdded) {
      sum = __shfl_xor_sync(kAllLanes, sum, distance);
    } else if (kWrong == FirstLaneOnly) {
      sum += __shfl_down_sync(kAllLanes, sum, static_cast<unsigned>(distance));
    } else if (kWrong == IfAroundAShuffle) {
      if (lane < static_cast<unsigned>(distance)) {
        sum += __shfl_down_sync(kAllLanes, sum, static_cast<unsigned>(distance));
      }
    } else {
      sum += __shfl_xor_sync(kAllLanes, sum, distance);
    }
  }
  return sum;
}

template <Wrong kWrong>
__global__ __launch_bounds__(kThreads) void sums(const float* x, size_t n, float* out) {
  FOLIO_SHARED(float, all, kThreads);
  const size_t i = size_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) out[i] = warp_sum<kWrong>(x[i], all);
}

template <Wrong kWrong>
void run(Stream& stream, const float* x, size_t n_warps, float* out) {
  const size_t n = n_warps * kWarp;
  const auto threads = static_cast<unsigned>(n < kThreads ? n : kThreads);
  launch(sums<kWrong>, {static_cast<unsigned>((n + threads - 1) / threads)}, {threads}, 0, stream, x, n, out);
}

const std::vector<Mistake<decltype(warp_sums)>> kMistakes{
    {"half_of_the_lanes", "AllLanesAreAdded", "is 16, but", run<Wrong::HalfOfTheLanes>},
    {"begins_at_32", "AllLanesAreAdded", "is 64, but", run<Wrong::BeginsAt32>},
    {"not_added", "AllLanesAreAdded", "is 1, but", run<Wrong::NotAdded>},
    {"if_around_a_shuffle", "AllLanesAreAdded", "it has to go there, too", run<Wrong::IfAroundAShuffle>},
    {"first_lane_only", "EveryLaneHasTheSum", "__shfl_down_sync gives", run<Wrong::FirstLaneOnly>},
    {"of_the_block", "WarpsAreApart", "the other warp's", run<Wrong::OfTheBlock>},
    {"one_by_one", "FiveShufflesAreEnough", "The number is 31, but", run<Wrong::OneByOne>},
};

}  // namespace

void warp_sums(Stream& stream, const float* x, size_t n_warps, float* out) {
  chosen(kMistakes, run<Wrong::None>)(stream, x, n_warps, out);
}

}  // namespace folio::exercises
