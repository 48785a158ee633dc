// Declares the functions that the reader writes in the serving exercises: algorithms of an inference engine in plain
// C++, each in its own file in this folder. Arrays are row-major.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "experiments/exercises/serving/latent.h"
#include "experiments/exercises/serving/regex.h"
#include "experiments/exercises/unfilled.h"

namespace folio::exercises {

using Floats = std::vector<float>;

/// Two adjacent tokens that BPE merges into one.
struct Merge {
  int32_t left, right;
  bool operator==(const Merge&) const = default;
};
/// A pair of adjacent tokens and its number of occurrences.
struct PairCount {
  Merge pair{-1, -1};
  int64_t count = 0;
};
/// A word of the text and its number of occurrences.
struct CountedWord {
  std::vector<int32_t> tokens;
  int64_t count;
};
PairCount best_pair(const std::vector<CountedWord>& words);
std::vector<Merge> train_merges(std::vector<CountedWord> words, int32_t first_new, size_t n_merges);

/// Keys and values of a sequence, both (n_kv_heads, capacity, head_dim): each head's positions are contiguous.
struct KvCache {
  size_t n_kv_heads, capacity, head_dim;
  Floats keys = Floats(n_kv_heads * capacity * head_dim), values = keys;
  size_t length = 0;  ///< number of stored positions
};
void append(KvCache& cache, const Floats& k, const Floats& v);

/// The state of an online softmax after some blocks of scores.
struct Partial {
  float max = -std::numeric_limits<float>::infinity();  ///< largest score so far
  float sum = 0.0F;                                     ///< sum of exp(score - max)
  Floats weighted{};                                    ///< (dim): sum of exp(score - max) * value
};
void take_block(Partial& partial, const Floats& scores, const Floats& values);

constexpr size_t kQ8Block = 32;
/// A quantized block of 32 values: x_i is about scale * q_i.
struct Q8Block {
  float scale;
  std::array<int8_t, kQ8Block> q;
};
Q8Block quantize(const Floats& x);
float dot(const Q8Block& a, const Q8Block& b);

/// A request's token counts, from which plan() computes the number of rows for its next step.
struct Request {
  size_t n_tokens;    ///< number of tokens: the prompt's and those drawn so far
  size_t n_computed;  ///< tokens with stored keys and values; 0: waiting, not yet started
};
std::vector<size_t> plan(const std::vector<Request>& requests, size_t max_rows, size_t max_running);

bool may_end(const Regex& r);
Regex derivative(const Regex& r, uint8_t byte);
std::vector<bool> token_mask(const Regex& rest, const std::vector<std::string>& tokens, size_t end_token);

/// An expert selected for a token, and its weight in the token's output.
struct Route {
  size_t expert;
  float weight;
};
using RunExpert = std::function<Floats(size_t expert, const Floats& rows)>;
std::vector<Route> route(const Floats& logits, size_t n_chosen);
Floats combine(const Floats& x, size_t dim, const std::vector<std::vector<Route>>& routes, size_t n_experts,
               const RunExpert& run);

/// A rank's view of the ring that n_ranks processes form for communication.
struct Ring {
  size_t rank, n_ranks;
  /// Sends elements to the next rank (from the last to rank 0), then waits for the previous rank's elements and returns
  /// them.
  std::function<Floats(const Floats& numbers)> pass;
};
void all_reduce(Floats& x, const Ring& ring);

/// A feed-forward layer: y = w2 relu(w1 x) + bias.
struct FeedForward {
  size_t dim, hidden;
  Floats w1;    ///< (hidden, dim)
  Floats w2;    ///< (dim, hidden)
  Floats bias;  ///< (dim)
};
FeedForward part_of(const FeedForward& whole, size_t rank, size_t n_ranks);
Floats output_of(const FeedForward& layer, const Floats& x);

/// The final norm and the output matrix, which map the residual stream to logits.
struct Readout {
  Floats weight;  ///< (dim): weight of the norm
  float eps;      ///< epsilon of the norm
  Floats output;  ///< (vocabulary, dim)
};
Floats attribution(const std::vector<Floats>& stream, const Readout& readout, size_t row, size_t token);

Floats absorbed_query(const LatentAttention& a, size_t head, const Floats& q, size_t position);
Floats attend_to_latents(const LatentAttention& a, const Floats& q, const Floats& cache);

double expected_tokens(const std::vector<double>& right);

}  // namespace folio::exercises
