#include "experiments/15_kv_cache/generation.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "infer/cache/block_manager.h"

namespace folio::experiments {
namespace {

Work operator+(Work a, const Work& b) {
  return {a.matrix_multiply_adds + b.matrix_multiply_adds, a.attention_multiply_adds + b.attention_multiply_adds,
          a.matrix_bytes + b.matrix_bytes, a.cache_bytes + b.cache_bytes, a.activation_bytes + b.activation_bytes};
}

}  // namespace

Generation generate(infer::Runner& runner, size_t count, bool with_cache) {
  Generation g;
  const infer::ScopedSequence sequence(runner.cache());
  static_cast<void>(take_work());
  while (g.work.size() < count) {
    if (!with_cache) runner.cache().truncate(sequence.id(), 0);
    std::vector<infer::Row> rows;
    for (int64_t p = runner.cache().length(sequence.id()); p < std::ssize(g.tokens); ++p) {
      const int32_t token = g.tokens[static_cast<size_t>(p)];
      rows.push_back({token, sequence.id(), p, p + 1 == std::ssize(g.tokens)});  // only the last row needs logits
    }
    const auto logits = runner.forward(rows).logits;
    g.tokens.push_back(static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    g.logits.emplace_back(logits.begin(), logits.end());
    g.work.push_back(g.work.empty() ? take_work() : g.work.back() + take_work());
  }
  return g;
}

std::vector<float> logits_of_random_tokens(infer::Runner& runner, size_t count, uint64_t seed) {
  const infer::ScopedSequence sequence(runner.cache());
  std::vector<float> all;
  for (size_t p = 0; p < count; ++p) {
    const auto vocab = static_cast<uint64_t>(runner.config().vocab_size);
    const std::vector<infer::Row> row{
        {static_cast<int32_t>(core::random_below(seed, p, vocab)), sequence.id(), static_cast<int64_t>(p)}};
    const auto logits = runner.forward(row).logits;
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

double relative_distance(std::span<const float> a, std::span<const float> b) {
  double distance = 0.0, size = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    distance += (a[i] - b[i]) * static_cast<double>(a[i] - b[i]);
    size += b[i] * static_cast<double>(b[i]);
  }
  return std::sqrt(distance / size);
}

}  // namespace folio::experiments
