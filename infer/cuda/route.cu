// Routing of a mixture of experts: a router's logits become the weights of each row's experts, and the assignments of
// all rows are grouped by expert.
#include "infer/cuda/block.h"
#include "infer/cuda/experts.h"

namespace folio::infer::gpu {
namespace {

constexpr float kNone = -__builtin_huge_valf();  // below every score

// Returns bit i of a bit set in shared memory. Bit sets represent chosen experts or groups of experts.
__device__ bool has_bit(const uint32_t* words, uint32_t i) { return (words[i / kWarp] >> i % kWarp & 1U) != 0; }

// Sets `words` to the bit set of the n_chosen largest values above kNone; of equal values, the first is chosen. Called
// by all lanes of a warp.
__device__ void choose(const float* values, uint32_t n, uint32_t n_chosen, uint32_t* words) {
  const unsigned lane = threadIdx.x;
  for (uint32_t i = lane; i < ceil_div(n, kWarp); i += kWarp) words[i] = 0;
  __syncthreads();
  for (uint32_t k = 0; k < n_chosen; ++k) {
    float best = kNone;
    uint32_t index = n;
    for (uint32_t i = lane; i < n; i += kWarp) {
      if (values[i] > best && !has_bit(words, i)) {
        best = values[i];
        index = i;
      }
    }
    for (int distance = 16; distance > 0; distance /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, best, distance);
      const uint32_t other_index = __shfl_xor_sync(kAllLanes, index, distance);
      if (other > best || (other == best && other_index < index)) {
        best = other;
        index = other_index;
      }
    }
    if (index == n) break;
    __syncthreads();  // all lanes have read `words` before lane 0 changes it; shuffles do not ensure this
    if (lane == 0) words[index / kWarp] |= 1U << index % kWarp;
    __syncthreads();
  }
}

// Replaces logits by scores: their sigmoid if `sigmoid`, else their softmax. Called by all lanes of a warp.
__device__ void to_scores(float* scores, uint32_t n, bool sigmoid) {
  const unsigned lane = threadIdx.x;
  if (sigmoid) {
    for (uint32_t i = lane; i < n; i += kWarp) scores[i] = 1.0F / (1.0F + exp_of(-scores[i]));
    __syncthreads();
    return;
  }
  float largest = kNone;
  for (uint32_t i = lane; i < n; i += kWarp) largest = scores[i] > largest ? scores[i] : largest;
  largest = warp_join(largest, [](float a, float b) { return b > a ? b : a; });
  for (uint32_t i = lane; i < n; i += kWarp) scores[i] = exp_of(scores[i] - largest);
  __syncthreads();
  float sum = 0.0F;
  for (uint32_t i = 0; i < n; ++i) sum += scores[i];
  __syncthreads();
  for (uint32_t i = lane; i < n; i += kWarp) scores[i] /= sum;
  __syncthreads();
}

// Returns the sum of the two largest values of a group, or the largest if `by_max`.
__device__ float score_of_group(const float* values, uint32_t size, bool by_max) {
  float best = kNone;
  float second = kNone;
  for (uint32_t i = 0; i < size; ++i) {
    const float lower = values[i] < best ? values[i] : best;
    second = second < lower ? lower : second;
    best = best < values[i] ? values[i] : best;
  }
  return size > 1 && !by_max ? best + second : best;
}

size_t words_of(size_t n) { return ceil_div(n, kWarp); }

// One warp per row. Scores are in shared memory. The warp scans them n_chosen times for the maximum; a lane reads every
// 32nd score. Sums and ties follow the order of the experts, so results equal those of the reference bit for bit.
// cuda_report: route_rows shares 1056 bytes
__global__ __launch_bounds__(kWarp) void route_rows(float* routes, const float* bias, Routing r, Assignments assigned) {
  FOLIO_DYNAMIC_SHARED(shared);
  auto* scores = reinterpret_cast<float*>(shared);
  float* by = scores + r.n_experts;  // scores plus bias; they select the experts
  float* groups = by + r.n_experts;
  auto* chosen = reinterpret_cast<uint32_t*>(groups + r.n_groups);
  uint32_t* chosen_groups = chosen + ceil_div(r.n_experts, kWarp);
  const unsigned lane = threadIdx.x;
  routes += static_cast<size_t>(blockIdx.x) * r.n_experts;
  assigned.experts += static_cast<size_t>(blockIdx.x) * r.n_chosen;
  assigned.weights += static_cast<size_t>(blockIdx.x) * r.n_chosen;

  for (uint32_t i = lane; i < r.n_experts; i += kWarp) scores[i] = routes[i];
  to_scores(scores, r.n_experts, r.sigmoid);
  for (uint32_t i = lane; i < r.n_experts; i += kWarp) by[i] = bias == nullptr ? scores[i] : scores[i] + bias[i];
  __syncthreads();
  if (r.groups_chosen < r.n_groups) {
    const uint32_t size = r.n_experts / r.n_groups;
    for (uint32_t g = lane; g < r.n_groups; g += kWarp) {
      groups[g] = score_of_group(by + g * size, size, r.groups_by_max);
    }
    __syncthreads();
    choose(groups, r.n_groups, r.groups_chosen, chosen_groups);
    for (uint32_t i = lane; i < r.n_experts; i += kWarp) {
      if (!has_bit(chosen_groups, i / size)) by[i] = kNone;
    }
    __syncthreads();
  }
  choose(by, r.n_experts, r.n_chosen, chosen);

  float sum = 0.0F;
  for (uint32_t i = 0; i < r.n_experts; ++i) sum += has_bit(chosen, i) ? scores[i] : 0.0F;
  const float factor = r.normalizes ? r.scale / (sum + 1e-20F) : r.scale;
  uint32_t n_assigned = 0;
  for (uint32_t i = lane; i < ceil_div(r.n_experts, kWarp) * kWarp; i += kWarp) {
    const uint32_t word = chosen[i / kWarp];
    const bool is_chosen = (word >> lane & 1U) != 0;
    const float weight = is_chosen ? scores[i] * factor : 0.0F;
    if (i < r.n_experts) routes[i] = weight;
    if (is_chosen) {
      const uint32_t place = n_assigned + count_bits(word & ((1U << lane) - 1));
      assigned.experts[place] = static_cast<int32_t>(i);
      assigned.weights[place] = weight;
    }
    n_assigned += count_bits(word);
  }
  for (uint32_t k = n_assigned + lane; k < r.n_chosen; k += kWarp) {
    assigned.experts[k] = -1;
    assigned.weights[k] = 0.0F;
  }
}

// One block per expert: reads all assignments, 256 at a time, and lists those of its expert in order. The last block to
// finish splits the lists into groups. The lists don't depend on the order of blocks.
__global__ __launch_bounds__(kBlockThreads) void group_by_expert(const int32_t* experts, uint32_t n_assignments,
                                                                 uint32_t n_experts, uint32_t n_rows, Grouped to) {
  const auto expert = static_cast<int32_t>(blockIdx.x);
  int32_t* list = to.assignments + static_cast<size_t>(blockIdx.x) * n_rows;
  uint32_t n = 0;
  for (uint32_t first = 0; first < n_assignments; first += kBlockThreads) {
    const uint32_t i = first + threadIdx.x;
    const bool mine = i < n_assignments && experts[i] == expert;
    const auto [before, found] = block_scan<kBlockWarps>(mine ? 1U : 0U);
    if (mine) list[n + before] = static_cast<int32_t>(i);
    n += found;
  }
  if (threadIdx.x == 0) to.counts[expert] = n;
  uint32_t* counter = to.counts + n_experts;
  if (!is_last_block(counter, n_experts)) return;

  const auto of_thread = static_cast<uint32_t>(ceil_div(n_experts, kBlockThreads));
  const uint32_t begin = threadIdx.x * of_thread < n_experts ? threadIdx.x * of_thread : n_experts;
  const uint32_t end = begin + of_thread < n_experts ? begin + of_thread : n_experts;
  uint32_t n_groups = 0;
  for (uint32_t e = begin; e < end; ++e) n_groups += static_cast<uint32_t>(ceil_div(to.counts[e], to.size));
  auto [group, all_groups] = block_scan<kBlockWarps>(n_groups);
  for (uint32_t e = begin; e < end; ++e) {
    const uint32_t count = to.counts[e];
    for (uint32_t at = 0; at < count; at += to.size) {
      const uint32_t left = count - at;
      to.groups[group++] = {static_cast<int32_t>(e), e * n_rows + at, left < to.size ? left : to.size};
    }
  }
  for (uint32_t g = all_groups + threadIdx.x; g < to.n_groups; g += kBlockThreads) to.groups[g] = {-1, 0, 0};
  if (threadIdx.x == 0) *counter = 0;
}

}  // namespace

void route(Stream& stream, float* routes, const float* bias, const Routing& r, size_t n_rows,
           const Assignments& assigned) {
  const size_t words = 2 * r.n_experts + r.n_groups + words_of(r.n_experts) + words_of(r.n_groups);
  launch(route_rows, {static_cast<unsigned>(n_rows)}, {kWarp}, words * sizeof(uint32_t), stream, routes, bias, r,
         assigned);
}

void group_assignments(Stream& stream, const Assignments& assigned, const Routing& r, size_t n_rows,
                       const Grouped& grouped) {
  launch(group_by_expert, {r.n_experts}, {kBlockThreads}, 0, stream, assigned.experts,
         static_cast<uint32_t>(n_rows * r.n_chosen), r.n_experts, static_cast<uint32_t>(n_rows), grouped);
}

}  // namespace folio::infer::gpu
