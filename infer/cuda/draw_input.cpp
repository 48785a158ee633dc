#include <algorithm>
#include <iterator>

#include "core/error.h"
#include "core/random.h"
#include "infer/cuda/sample.h"

namespace folio::infer::gpu {
namespace {

std::vector<int32_t> sorted_ids(std::span<const int32_t> ids, size_t vocab_size) {
  std::vector<int32_t> sorted(ids.begin(), ids.end());
  for (const int32_t id : sorted) {
    core::require(id >= 0 && static_cast<size_t>(id) < vocab_size,
                  "token {} is outside the model's vocabulary of {}; use the model's own tokenizer", id, vocab_size);
  }
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return sorted;
}

}  // namespace

DrawInput draw_input(size_t row, const SamplerOptions& options, std::span<const int32_t> never,
                     std::span<const int32_t> history, int64_t position, size_t vocab_size, std::vector<int32_t>& ids) {
  const size_t first = ids.size();
  const auto suppressed = sorted_ids(never, vocab_size);
  if (options.repetition_penalty != 1.0F) {
    const auto recent = history.last(std::min(history.size(), static_cast<size_t>(options.repeat_last_n)));
    const auto penalized = sorted_ids(recent, vocab_size);
    std::set_difference(penalized.begin(), penalized.end(), suppressed.begin(), suppressed.end(),
                        std::back_inserter(ids));
  }
  const size_t n_penalized = ids.size() - first;
  ids.insert(ids.end(), suppressed.begin(), suppressed.end());
  return {.uniform = core::random_uniform(options.seed, static_cast<uint64_t>(position)),
          .row = static_cast<uint32_t>(row),
          .first_id = static_cast<uint32_t>(first),
          .n_penalized = static_cast<uint32_t>(n_penalized),
          .n_never = static_cast<uint32_t>(suppressed.size()),
          .top_k = static_cast<size_t>(options.top_k) < vocab_size ? static_cast<uint32_t>(options.top_k) : 0,
          .top_p = options.top_p,
          .min_p = options.min_p,
          .temperature = options.temperature,
          .repetition_penalty = options.repetition_penalty};
}

}  // namespace folio::infer::gpu
