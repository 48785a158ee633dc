// The functions that the exercises on serving ask for: parts of an engine around its arithmetic, in plain C++. Each is
// written in a file of its own beside this one. Arrays lie row by row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "experiments/exercises/serving/regex.h"
#include "experiments/exercises/unfilled.h"

namespace folio::exercises {

using Floats = std::vector<float>;

/// Two neighbouring tokens that become one.
struct Merge {
  int32_t left, right;
  bool operator==(const Merge&) const = default;
};
/// A pair of neighbours, and how often it comes.
struct PairCount {
  Merge pair{-1, -1};
  int64_t count = 0;
};
/// A word of a text, and how often it comes.
struct CountedWord {
  std::vector<int32_t> tokens;
  int64_t count;
};
PairCount best_pair(const std::vector<CountedWord>& words);
std::vector<Merge> train_merges(std::vector<CountedWord> words, int32_t first_new, size_t n_merges);

/// Keys and values of a sequence. Both are (n_kv_heads, capacity, head_dim): a head's positions lie side by side.
struct KvCache {
  size_t n_kv_heads, capacity, head_dim;
  Floats keys = Floats(n_kv_heads * capacity * head_dim), values = keys;
  size_t length = 0;  ///< positions that are written: 0 to length - 1
};
void append(KvCache& cache, const Floats& k, const Floats& v);

/// What is known of a softmax and its weighted sum after some of the scores.
struct Partial {
  float max = -std::numeric_limits<float>::infinity();  ///< of the scores so far
  float sum = 0.0F;                                     ///< of exp(score - max)
  Floats weighted{};                                    ///< sum of exp(score - max) * value; (dim)
};
void take_block(Partial& partial, const Floats& scores, const Floats& values);

constexpr size_t kQ8Block = 32;
/// x_i is about scale * q_i.
struct Q8Block {
  float scale;
  std::array<int8_t, kQ8Block> q;
};
Q8Block quantize(const Floats& x);
float dot(const Q8Block& a, const Q8Block& b);

/// A request, as a scheduler sees it.
struct Request {
  size_t n_tokens;    ///< whose keys and values it needs: the prompt's, and those that were drawn
  size_t n_computed;  ///< whose are there; 0: it waits and has not started yet
};
std::vector<size_t> plan(const std::vector<Request>& requests, size_t max_rows, size_t max_running);

bool may_end(const Regex& r);
Regex derivative(const Regex& r, uint8_t byte);
std::vector<bool> token_mask(const Regex& rest, const std::vector<std::string>& tokens, size_t end_token);

/// An expert that a token takes, and its weight in the token's output.
struct Route {
  size_t expert;
  float weight;
};
using RunExpert = std::function<Floats(size_t expert, const Floats& rows)>;
std::vector<Route> route(const Floats& logits, size_t n_chosen);
Floats combine(const Floats& x, size_t dim, const std::vector<std::vector<Route>>& routes, size_t n_experts,
               const RunExpert& run);

/// One of several processes, the ranks, in a ring.
struct Ring {
  size_t rank, n_ranks;
  /// Sends numbers to the next rank (the last one's next is rank 0), and returns what the rank before has sent.
  std::function<Floats(const Floats& numbers)> pass;
};
void all_reduce(Floats& x, const Ring& ring);

/// y = w2 relu(w1 x) + bias.
struct FeedForward {
  size_t dim, hidden;
  Floats w1;    ///< (hidden, dim)
  Floats w2;    ///< (dim, hidden)
  Floats bias;  ///< (dim)
};
FeedForward part_of(const FeedForward& whole, size_t rank, size_t n_ranks);
Floats output_of(const FeedForward& layer, const Floats& x);

}  // namespace folio::exercises
