// The mistakes, each with the test that must fail first and words of its message:
//     half_of_the_lanes: AllLanesAreAdded: is 16, but
//     begins_at_32: AllLanesAreAdded: is 64, but
//     not_added: AllLanesAreAdded: is 1, but
//     if_around_a_shuffle: AllLanesAreAdded: it has to go there, too
//     first_lane_only: EveryLaneHasTheSum: __shfl_down_sync gives
//     of_the_block: WarpsAreApart: the other warp's
//     one_by_one: FiveShufflesAreEnough: The number is 31, but
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

}  // namespace

void warp_sums(Stream& stream, const float* x, size_t n_warps, float* out) {
  using enum Wrong;
  if (wrong("half_of_the_lanes")) return run<HalfOfTheLanes>(stream, x, n_warps, out);
  if (wrong("begins_at_32")) return run<BeginsAt32>(stream, x, n_warps, out);
  if (wrong("not_added")) return run<NotAdded>(stream, x, n_warps, out);
  if (wrong("if_around_a_shuffle")) return run<IfAroundAShuffle>(stream, x, n_warps, out);
  if (wrong("first_lane_only")) return run<FirstLaneOnly>(stream, x, n_warps, out);
  if (wrong("of_the_block")) return run<OfTheBlock>(stream, x, n_warps, out);
  if (wrong("one_by_one")) return run<OneByOne>(stream, x, n_warps, out);
  run<None>(stream, x, n_warps, out);
}

}  // namespace folio::exercises
