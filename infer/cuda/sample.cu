// Samples a token from a row of logits as sampling/sampler.h does: penalty, top-k, top-p, min-p, temperature, draw.
// Tokens are ranked by logit, equal logits by id. A filter or draw selects the first rank at which the running sum of
// the weights exceeds a target (choose() in sample_body.h). Weights are integers, e^x in units of 2^-44, so sums are
// exact in any order of threads and blocks. The three kernels survey, list and settle share a State for each draw.
#include "infer/cuda/block.h"
#include "infer/cuda/sample.h"
#include "infer/cuda/sample_body.h"

namespace folio::infer::gpu {
namespace {

// A block of the kernels `survey` and `list` reads 4096 logits. The preceding product has just stored them in the L2
// cache, so reading them takes less time than a kernel launch.

constexpr unsigned kSampleThreads = 512;
constexpr unsigned kSampleWarps = kSampleThreads / kWarp;
constexpr unsigned kChunk = 4096;           // logits in a chunk, which a block reads together
constexpr unsigned kMostCandidates = 8192;  // maximum number of candidates that a block sorts
constexpr unsigned kBins = 2048;            // bins of the histogram of logits
constexpr float kBinsOfOne = 4.0F;          // bins per unit of logit value; the first and the last bin are unbounded

/// The state of one draw. The members up to n_listed are zero between draws.
struct State {
  // written by the kernel `survey`
  Sum likeliest;  ///< kEnd minus the likeliest token's rank, so that atomicMax() finds it
  unsigned not_finite;
  unsigned n_surveyed;  ///< thread blocks that have finished `survey`
  uint32_t counts[kBins];
  // written by the kernel `list`
  Sum total;  ///< sum of the weights of all tokens, of the kind Weights::first()
  unsigned n_listed;
  // written by `survey`, except `candidates`, which `list` fills
  unsigned decided;    ///< 1: `survey` has stored the result (temperature 0, or the draw failed)
  unsigned n_levels;   ///< number of topmost levels (bins) that contain the candidates
  unsigned n_allowed;  ///< number of tokens that may be drawn
  float largest;
  Rank candidates[kMostCandidates];
};

// Returns a logit's bin, counted from the top: level 0 has the largest logits.
__device__ inline unsigned level_of(float logit) {
  const float bin = logit * kBinsOfOne + kBins / 2;
  return kBins - 1 - static_cast<unsigned>(bin > 0.0F ? (bin < kBins - 1 ? bin : kBins - 1) : 0.0F);
}
// Returns the upper bound of a level's logits. Not valid for level 0, which is unbounded.
__device__ inline float top_of(unsigned level) { return (static_cast<float>(kBins - level) - kBins / 2) / kBinsOfOne; }

__device__ inline Sum block_total(Sum value) { return block_scan<kSampleWarps>(value).total; }

// Returns the minimum of `value` over the block's threads.
__device__ inline Rank block_first(Rank value) {
  FOLIO_SHARED(Rank, first, kSampleWarps);
  value = warp_join(value, [](Rank a, Rank b) { return b < a ? b : a; });
  if (threadIdx.x % kWarp == 0) first[threadIdx.x / kWarp] = value;
  __syncthreads();
  Rank least = kEnd;
  for (unsigned w = 0; w < kSampleWarps; ++w) least = first[w] < least ? first[w] : least;
  __syncthreads();
  return least;
}

// A row of logits, which the threads of a block read together, chunk by chunk. `marks` (kChunk), in shared memory,
// flags the penalized and the forbidden tokens of a chunk.
class Row {
 public:
  __device__ Row(const float* logits, unsigned vocab_size, const DrawInput& in, const int32_t* ids, uint8_t* marks)
      : logits_(logits + static_cast<size_t>(in.row) * vocab_size),
        vocab_size_(vocab_size),
        in_(in),
        ids_(ids + in.first_id),
        marks_(marks) {}

  // Calls f(rank, original logit) for the tokens of a chunk; the rank is kEnd for tokens that must not be drawn.
  template <typename F>
  __device__ void visit(unsigned chunk, F f) const {
    const unsigned first = chunk * kChunk;
    const bool marked = in_.n_penalized + in_.n_never > 0;
    if (marked) mark(first);
    constexpr unsigned kEach = kChunk / kSampleThreads;
    float raw[kEach];  // all loads are in flight at once
    for (unsigned j = 0; j < kEach; ++j) {
      const unsigned id = first + j * kSampleThreads + threadIdx.x;
      raw[j] = id < vocab_size_ ? logits_[id] : 0.0F;
    }
    for (unsigned j = 0; j < kEach; ++j) {
      const unsigned i = j * kSampleThreads + threadIdx.x;
      if (first + i >= vocab_size_) return;
      const uint8_t mark = marked ? marks_[i] : kNone;
      const float logit = mark == kPenalized ? penalized(raw[j], in_.repetition_penalty) : raw[j];
      f(logit < kFloor || mark == kNever ? kEnd : rank_of(logit, first + i), raw[j]);
    }
  }

  template <typename F>
  __device__ void visit_all(F f) const {
    for (unsigned chunk = 0; chunk * kChunk < vocab_size_; ++chunk) {
      visit(chunk, [&](Rank p, float) {
        if (p != kEnd) f(p);
      });
    }
  }

 private:
  static constexpr uint8_t kNone = 0;
  static constexpr uint8_t kPenalized = 1;
  static constexpr uint8_t kNever = 2;

  __device__ void mark(unsigned first) const {
    __syncthreads();  // waits until the previous marks have been read
    for (unsigned i = threadIdx.x; i < kChunk; i += kSampleThreads) marks_[i] = kNone;
    __syncthreads();
    for (unsigned i = threadIdx.x; i < in_.n_penalized + in_.n_never; i += kSampleThreads) {
      const unsigned at = static_cast<unsigned>(ids_[i]) - first;
      if (at < kChunk) marks_[at] = i < in_.n_penalized ? kPenalized : kNever;
    }
    __syncthreads();
  }

  const float* logits_;
  unsigned vocab_size_;
  const DrawInput& in_;
  const int32_t* ids_;
  uint8_t* marks_;
};

// The tokens of a row, for choose() in sample_body.h. Reads the whole row for each sum.
struct RowTokens {
  const Row& row;
  Weights weights;

  __device__ Sum sum(Weight weight, Rank last) const {
    Sum sum = 0;
    row.visit_all([&](Rank p) {
      if (p <= last) sum += weights(weight, logit_of(p));
    });
    return block_total(sum);
  }

  __device__ Rank select(Weight weight, Rank last, Sum target) const {
    Rank first = 0;  // lower bound of the selected rank
    Sum before = 0;  // sum of the weights of the ranks before `first`
    for (int bit = kRankBits - 2; bit >= 0; bit -= 2) {
      Sum sums[3] = {0, 0, 0};
      row.visit_all([&](Rank p) {
        if (p < first || p > last) return;
        const Rank quarter = (p - first) >> static_cast<unsigned>(bit);
        if (quarter > 2) return;
        const Sum w = weights(weight, logit_of(p));
        for (Rank q = 0; q < 3; ++q) sums[q] += quarter <= q ? w : 0;
      });
      Rank step = 0;
      Sum passed = 0;
      for (const Sum sum : sums) {
        const Sum total = block_total(sum);
        if (before + total > target) continue;  // the remaining sums are not smaller, so they exceed the target, too
        ++step;
        passed = total;
      }
      first += step << static_cast<unsigned>(bit);
      before += passed;
    }
    return first;
  }
};

// The first n ranks of a row, sorted in shared memory; each thread processes a contiguous range of them. If select()
// would need a later rank, it sets `beyond`, and all results are invalid.
class Candidates {
 public:
  __device__ Candidates(const Weights& weights, const Rank* ranks, unsigned n, bool are_all, Sum total)
      : weights_(weights),
        ranks_(ranks),
        first_(smaller(threadIdx.x * ((n + kSampleThreads - 1) / kSampleThreads), n)),
        end_(smaller(first_ + (n + kSampleThreads - 1) / kSampleThreads, n)),
        are_all_(are_all),
        total_(total) {}

  __device__ Sum sum(Weight weight, Rank last) const { return last == kEnd ? total_ : block_total(own(weight, last)); }

  __device__ Rank select(Weight weight, Rank last, Sum target) {
    Sum up_to = block_scan<kSampleWarps>(own(weight, last)).before;
    Rank found = kEnd;
    for (unsigned i = first_; i < end_ && found == kEnd; ++i) {
      if (ranks_[i] <= last) up_to += weights_(weight, logit_of(ranks_[i]));
      if (up_to > target) found = ranks_[i];
    }
    found = block_first(found);
    if (found == kEnd && !are_all_) beyond = true;
    return found;
  }

  bool beyond = false;

 private:
  [[nodiscard]] __device__ static unsigned smaller(unsigned a, unsigned b) { return a < b ? a : b; }
  [[nodiscard]] __device__ Sum own(Weight weight, Rank last) const {
    Sum sum = 0;
    for (unsigned i = first_; i < end_; ++i) {
      if (ranks_[i] <= last) sum += weights_(weight, logit_of(ranks_[i]));
    }
    return sum;
  }

  const Weights& weights_;
  const Rank* ranks_;
  unsigned first_;  // this thread's range of candidates is [first_, end_)
  unsigned end_;
  bool are_all_;
  Sum total_;  // sum over the whole row of the weights of kind Weights::first()
};

// Selects levels (bins of logits) from the top until they provably contain enough candidates, or until the next level
// would exceed kMostCandidates tokens. A level's weight is bounded by its number of logits times the weight at the
// upper or lower end of the bin.
__device__ void find_levels(const Weights& weights, State& state) {
  constexpr unsigned kEach = kBins / kSampleThreads;
  const DrawInput& in = weights.in;
  const unsigned first = threadIdx.x * kEach;
  unsigned counts[kEach];
  Sum least[kEach];
  Sum most[kEach];
  Sum n_own = 0;
  Sum least_own = 0;
  Sum most_own = 0;
  for (unsigned i = 0; i < kEach; ++i) {
    const unsigned level = first + i;
    counts[i] = state.counts[level];
    least[i] = most[i] = 0;
    if (counts[i] > 0) {
      const float top = level == 0 || top_of(level) > weights.largest ? weights.largest : top_of(level);
      most[i] = counts[i] * weights(weights.first(), top);
      if (level + 1 < kBins) least[i] = counts[i] * weights(weights.first(), top_of(level + 1));
    }
    n_own += counts[i];
    least_own += least[i];
    most_own += most[i];
  }
  const Scan<Sum> n_tokens = block_scan<kSampleWarps>(n_own);
  const Scan<Sum> of_most = block_scan<kSampleWarps>(most_own);
  Sum n_above = n_tokens.before;
  Sum least_above = block_scan<kSampleWarps>(least_own).before;
  Sum most_below = of_most.total - of_most.before;
  const double share = in.top_p < 1.0F ? in.top_p : in.uniform;
  Rank out = kBins;  // first level (bin) without candidates; kBins: none
  for (unsigned i = 0; i < kEach; ++i) {
    const Sum largest = n_above > 0 ? static_cast<Sum>(kUnits) : 0;
    const auto above = static_cast<double>(least_above > largest ? least_above : largest);
    const bool enough =
        in.top_k > 0 ? n_above >= in.top_k : n_above > 0 && above >= share * (above + static_cast<double>(most_below));
    n_above += counts[i];
    least_above += least[i];
    most_below -= most[i];
    if ((enough || n_above > kMostCandidates) && out == kBins) out = first + i;
  }
  const auto n_levels = static_cast<unsigned>(block_first(out));
  for (unsigned i = first; i < first + kEach; ++i) state.counts[i] = 0;
  if (threadIdx.x > 0) return;
  state.n_levels = n_levels;
  state.n_allowed = static_cast<unsigned>(n_tokens.total);
  state.largest = weights.largest;
}

// Finds the likeliest token and counts the logits of each level. The last block to finish a row then limits the
// candidates to the likeliest tokens, usually a few dozen, such that they include the top-p cutoff and the drawn token.
// With temperature 0, it stores the likeliest token instead.
__global__ __launch_bounds__(kSampleThreads) void survey(const float* logits, unsigned vocab_size,
                                                         const DrawInput* draws, const int32_t* ids, State* states,
                                                         int32_t* tokens) {
  FOLIO_SHARED(uint8_t, marks, kChunk);
  FOLIO_SHARED(uint32_t, counts, kBins);
  const DrawInput& in = draws[blockIdx.y];
  State& state = states[blockIdx.y];
  const bool draws_one = in.temperature > 0.0F;
  for (unsigned i = threadIdx.x; i < kBins; i += kSampleThreads) counts[i] = 0;
  __syncthreads();
  Rank likeliest = kEnd;
  bool finite = true;
  Row(logits, vocab_size, in, ids, marks).visit(blockIdx.x, [&](Rank p, float raw) {
    finite = finite && is_finite(raw);
    likeliest = p < likeliest ? p : likeliest;
    if (draws_one && p != kEnd) atomicAdd(&counts[level_of(logit_of(p))], 1U);
  });
  if (!finite) atomicMax(&state.not_finite, 1U);
  likeliest = block_first(likeliest);
  if (threadIdx.x == 0) atomicMax(&state.likeliest, kEnd - likeliest);
  for (unsigned i = threadIdx.x; draws_one && i < kBins; i += kSampleThreads) {
    if (counts[i] > 0) atomicAdd(&state.counts[i], counts[i]);
  }
  if (!is_last_block(&state.n_surveyed, gridDim.x)) return;

  likeliest = kEnd - state.likeliest;
  finite = state.not_finite == 0;
  __syncthreads();  // all threads have read likeliest and not_finite
  if (draws_one) find_levels({in, logit_of(likeliest)}, state);
  if (threadIdx.x > 0) return;
  const bool any = likeliest != kEnd;
  state.decided = finite && any && draws_one ? 0 : 1;
  if (state.decided == 1) {
    tokens[blockIdx.y] = !finite ? kNotFinite : any ? static_cast<int32_t>(id_of(likeliest)) : kNothingLeft;
  }
  state.likeliest = 0;
  state.not_finite = 0;
  state.n_surveyed = 0;
}

// Sorts ranks[0, n) in ascending order with all threads of a block, by a bitonic network (Batcher 1968). The network
// needs a power of two: `ranks` must have that capacity, and is padded with kEnd, the largest rank.
__device__ inline void sort(Rank* ranks, unsigned n) {
  unsigned size = 1;
  while (size < n) size *= 2;
  for (unsigned i = n + threadIdx.x; i < size; i += kSampleThreads) ranks[i] = kEnd;
  __syncthreads();
  for (unsigned run = 2; run <= size; run *= 2) {
    for (unsigned distance = run / 2; distance > 0; distance /= 2) {
      for (unsigned pair = threadIdx.x; pair < size / 2; pair += kSampleThreads) {
        const unsigned low = 2 * pair - pair % distance;
        const unsigned high = low + distance;
        const bool rising = (low & run) == 0;
        const Rank a = ranks[low];
        const Rank b = ranks[high];
        if ((a > b) == rising) {
          ranks[low] = b;
          ranks[high] = a;
        }
      }
      __syncthreads();
    }
  }
}

// Lists the candidates and sums the weights of all tokens.
__global__ __launch_bounds__(kSampleThreads) void list(const float* logits, unsigned vocab_size, const DrawInput* draws,
                                                       const int32_t* ids, State* states) {
  FOLIO_SHARED(uint8_t, marks, kChunk);
  FOLIO_SHARED(Rank, ranks, kChunk);
  FOLIO_SHARED(unsigned, n_found, 2);  // candidates of this block, and their offset in the row's list
  State& state = states[blockIdx.y];
  if (state.decided == 1) return;
  const DrawInput& in = draws[blockIdx.y];
  const Weights weights{in, state.largest};
  const unsigned n_levels = state.n_levels;
  if (threadIdx.x == 0) n_found[0] = 0;
  __syncthreads();
  Sum sum = 0;
  Row(logits, vocab_size, in, ids, marks).visit(blockIdx.x, [&](Rank p, float) {
    if (p == kEnd) return;
    const float logit = logit_of(p);
    sum += weights(weights.first(), logit);
    if (level_of(logit) < n_levels) ranks[atomicAdd(&n_found[0], 1U)] = p;
  });
  sum = block_total(sum);
  if (threadIdx.x == 0) {
    atomicAdd(&state.total, sum);
    n_found[1] = atomicAdd(&state.n_listed, n_found[0]);
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < n_found[0]; i += kSampleThreads) state.candidates[n_found[1] + i] = ranks[i];
}

// Sorts a row's candidates in shared memory and draws a token, one block per row. If kMostCandidates are too few (many
// ties, large top-k), draws from the whole row, which is about 100 times slower. The launch bound of one block per
// multiprocessor avoids register spills.
// cuda_report: settle shares 65536 bytes
__global__ __launch_bounds__(kSampleThreads, 1) void settle(const float* logits, unsigned vocab_size,
                                                            const DrawInput* draws, const int32_t* ids, State* states,
                                                            int32_t* tokens) {
  FOLIO_SHARED(uint8_t, marks, kChunk);
  FOLIO_DYNAMIC_SHARED(bytes);
  auto* ranks = reinterpret_cast<Rank*>(bytes);  // (kMostCandidates)
  State& state = states[blockIdx.x];
  if (state.decided == 1) return;
  const DrawInput& in = draws[blockIdx.x];
  const Weights weights{in, state.largest};
  const unsigned n = state.n_listed;
  for (unsigned i = threadIdx.x; i < n; i += kSampleThreads) ranks[i] = state.candidates[i];
  sort(ranks, n);
  Candidates candidates(weights, ranks, n, n == state.n_allowed, state.total);
  Rank drawn = choose(in, candidates);
  if (candidates.beyond) {
    const Row row(logits, vocab_size, in, ids, marks);
    RowTokens all{row, weights};
    drawn = choose(in, all);
  }
  if (threadIdx.x > 0) return;
  tokens[blockIdx.x] = static_cast<int32_t>(id_of(drawn));
  state.total = 0;
  state.n_listed = 0;
}

}  // namespace

size_t draw_workspace_bytes(size_t n_draws) { return n_draws * sizeof(State); }

void draw_tokens(Stream& stream, const float* logits, size_t vocab_size, const DrawInput* draws, const int32_t* ids,
                 size_t n_draws, void* workspace, int32_t* tokens) {
  const auto n = static_cast<unsigned>(n_draws);
  const auto vocab = static_cast<unsigned>(vocab_size);
  auto* states = static_cast<State*>(workspace);
  const Grid blocks{(vocab + kChunk - 1) / kChunk, n};
  launch(survey, blocks, {kSampleThreads}, 0, stream, logits, vocab, draws, ids, states, tokens);
  launch(list, blocks, {kSampleThreads}, 0, stream, logits, vocab, draws, ids, states);
  launch(settle, {n}, {kSampleThreads}, kMostCandidates * sizeof(Rank), stream, logits, vocab, draws, ids, states,
         tokens);
}

}  // namespace folio::infer::gpu
