#include <limits>

#include "experiments/33_cuda/g_attention.h"
#include "infer/cuda/numbers.h"

namespace folio::experiments {

using namespace infer::gpu;  // NOLINT: kernels use CUDA's names unqualified

namespace {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();
constexpr size_t kPartNumbers = kQueryDim + 2;  // floats stored per part: Σ e^(s - max) v, max, Σ e^(s - max)

/// Returns a position's key (64). The position's value is stored kCachePositions rows of 64 after it.
__device__ const float* key_at(const CachedAttention& a, size_t head, size_t position) {
  const auto block = static_cast<size_t>(a.table[position / kCachePositions]);
  return a.cache + ((block * a.heads + head) * 2 * kCachePositions + position % kCachePositions) * kQueryDim;
}
__device__ const float* value_of(const float* key) { return key + kCachePositions * kQueryDim; }

/// Elements `lane` and `lane + 32` of a query, scaled.
struct Query {
  float q[2];
};
__device__ Query query_of(const CachedAttention& a, size_t head) {
  const float* query = a.query + head * kQueryDim + threadIdx.x;
  return {{query[0] * a.scale, query[kWarp] * a.scale}};
}

/// Returns the dot product of query and key, in all lanes.
__device__ float score_of(const Query& query, const float* key) {
  float sum = fmaf(query.q[0], key[threadIdx.x], query.q[1] * key[threadIdx.x + kWarp]);
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(kAllLanes, sum, distance);
  return sum;
}

__device__ float larger(float a, float b) { return a > b ? a : b; }

/// The state of an online softmax: the largest score, Σ e^(s - max), and a lane's two elements of Σ e^(s - max) v.
struct Softmax {
  float max = kNoScore;
  float sum = 0.0F;
  float out[2] = {0.0F, 0.0F};
};

/// Merges the softmax of other positions into `s`. For a single position, `max` is its score, `sum` is 1, and `out` is
/// its value.
__device__ void add_part(Softmax& s, float max, float sum, const float* out) {
  const float most = larger(s.max, max);
  const float keep = exp_of(s.max - most);
  const float add = exp_of(max - most);
  s.max = most;
  s.sum = fmaf(s.sum, keep, sum * add);
  for (unsigned i = 0; i < 2; ++i) s.out[i] = fmaf(s.out[i], keep, out[threadIdx.x + i * kWarp] * add);
}

__device__ void put_output(const CachedAttention& a, size_t head, const Softmax& s) {
  for (unsigned i = 0; i < 2; ++i) a.out[head * kQueryDim + threadIdx.x + i * kWarp] = s.out[i] / s.sum;
}

__device__ Softmax attend(const CachedAttention& a, size_t head, size_t begin, size_t end) {
  const Query query = query_of(a, head);
  Softmax s;
  for (size_t p = begin; p < end; ++p) {
    const float* key = key_at(a, head, p);
    add_part(s, score_of(query, key), 1.0F, value_of(key));
  }
  return s;
}

__global__ __launch_bounds__(kWarp) void passes(CachedAttention a) {
  const size_t head = blockIdx.x;
  const Query query = query_of(a, head);
  float* scores = a.scores + head * a.positions;
  for (size_t p = 0; p < a.positions; ++p) {
    const float score = score_of(query, key_at(a, head, p));
    if (threadIdx.x == 0) scores[p] = score;
  }
  __syncwarp();
  Softmax s;
  for (size_t p = threadIdx.x; p < a.positions; p += kWarp) s.max = larger(s.max, scores[p]);
  for (int distance = 16; distance > 0; distance /= 2) {
    s.max = larger(s.max, __shfl_xor_sync(kAllLanes, s.max, distance));
  }
  for (size_t p = 0; p < a.positions; ++p) {
    const float weight = exp_of(scores[p] - s.max);
    const float* value = value_of(key_at(a, head, p));
    s.sum += weight;
    for (unsigned i = 0; i < 2; ++i) s.out[i] = fmaf(weight, value[threadIdx.x + i * kWarp], s.out[i]);
  }
  put_output(a, head, s);
}

__global__ __launch_bounds__(kWarp) void online(CachedAttention a) {
  put_output(a, blockIdx.x, attend(a, blockIdx.x, 0, a.positions));
}

__device__ float* part_of(const CachedAttention& a, size_t head, size_t part) {
  const size_t n_parts = (a.positions + kPartOfPositions - 1) / kPartOfPositions;
  return a.partials + (head * n_parts + part) * kPartNumbers;
}

__global__ __launch_bounds__(kWarp) void attend_parts(CachedAttention a) {
  const size_t begin = blockIdx.x * kPartOfPositions;
  const size_t end = begin + kPartOfPositions < a.positions ? begin + kPartOfPositions : a.positions;
  const Softmax s = attend(a, blockIdx.y, begin, end);
  float* part = part_of(a, blockIdx.y, blockIdx.x);
  for (unsigned i = 0; i < 2; ++i) part[threadIdx.x + i * kWarp] = s.out[i];
  if (threadIdx.x < 2) part[kQueryDim + threadIdx.x] = threadIdx.x == 0 ? s.max : s.sum;
}

__global__ __launch_bounds__(kWarp) void join_parts(CachedAttention a) {
  Softmax s;
  for (size_t p = 0; p * kPartOfPositions < a.positions; ++p) {
    const float* part = part_of(a, blockIdx.x, p);
    add_part(s, part[kQueryDim], part[kQueryDim + 1], part);
  }
  put_output(a, blockIdx.x, s);
}

}  // namespace

void attention_in_passes(Stream& stream, const CachedAttention& a) {
  launch(passes, {static_cast<unsigned>(a.heads)}, {kWarp}, 0, stream, a);
}
void attention_online(Stream& stream, const CachedAttention& a) {
  launch(online, {static_cast<unsigned>(a.heads)}, {kWarp}, 0, stream, a);
}
void attention_split(Stream& stream, const CachedAttention& a) {
  const auto parts = static_cast<unsigned>((a.positions + kPartOfPositions - 1) / kPartOfPositions);
  launch(attend_parts, {parts, static_cast<unsigned>(a.heads)}, {kWarp}, 0, stream, a);
  launch(join_parts, {static_cast<unsigned>(a.heads)}, {kWarp}, 0, stream, a);
}

}  // namespace folio::experiments
