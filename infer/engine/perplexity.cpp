#include "infer/engine/perplexity.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "infer/cache/scoped_sequence.h"

namespace folio::infer {
namespace {

constexpr size_t kLogitsAtOnce = 3'000'000;  // floats: 61 rows of a vocabulary of 49,152

}  // namespace

double negative_log_likelihood(std::span<const float> logits, int32_t target) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0.0;
  for (const float logit : logits) total += std::exp(logit - largest);
  return std::log(total) - (logits[static_cast<size_t>(target)] - largest);
}

int64_t scored_tokens(int64_t n_tokens, int64_t window) {
  const int64_t windows = (n_tokens + window - 1) / window;
  return n_tokens - windows;
}

void score_windows(Engine& engine, std::span<const int32_t> tokens, int64_t window, const OnLogProbs& on_log_probs) {
  const core::ModelConfig& config = engine.model().config();
  core::require(window >= 2 && window <= config.context_length, "a window of {} is not in [2, {}], the model's context",
                window, config.context_length);
  core::require(tokens.size() >= 2, "the text has {} tokens; two are needed to foresee one", tokens.size());
  const auto vocab_size = static_cast<size_t>(config.vocab_size);
  const size_t at_once = std::clamp(kLogitsAtOnce / vocab_size, size_t{1}, Engine::kMaxRows);
  std::vector<Row> rows;
  std::vector<float> logits;
  std::vector<double> log_probs;
  for (; tokens.size() >= 2; tokens = tokens.subspan(std::min(tokens.size(), static_cast<size_t>(window)))) {
    const auto text = tokens.first(std::min(tokens.size(), static_cast<size_t>(window)));
    const ScopedSequence sequence(engine.cache());
    for (size_t first = 0; first + 1 < text.size(); first += rows.size()) {
      rows.clear();
      for (size_t i = first; i + 1 < text.size() && rows.size() < at_once; ++i) {
        rows.push_back({.token = text[i], .sequence = sequence.id(), .position = static_cast<int64_t>(i)});
      }
      logits.resize(rows.size() * vocab_size);
      engine.forward(rows, logits);
      log_probs.clear();
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto row = std::span(logits).subspan(i * vocab_size, vocab_size);
        log_probs.push_back(-negative_log_likelihood(row, text[first + i + 1]));
        core::require(std::isfinite(log_probs.back()),
                      "the model's output is not finite at position {}; its weights are damaged", first + i);
      }
      if (!on_log_probs(log_probs)) return;
    }
  }
}

}  // namespace folio::infer
