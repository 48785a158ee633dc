#include "infer/engine/perplexity.h"

#include <algorithm>

#include "core/error.h"

namespace folio::infer {

int64_t scored_tokens(int64_t n_tokens, int64_t window) {
  const int64_t windows = (n_tokens + window - 1) / window;
  return n_tokens - windows;
}

void score_windows(Engine& engine, std::span<const int32_t> tokens, int64_t window, const OnLogProbs& on_log_probs,
                   int32_t adapter) {
  const int64_t context = engine.config().context_length;
  core::require(window >= 2 && window <= context,
                "the window is {}, but must be in [2, {}], the model's context length", window, context);
  core::require(tokens.size() >= 2, "the text has {} tokens, but perplexity needs at least 2", tokens.size());
  for (bool continues = true; continues && tokens.size() >= 2;) {
    const auto scored = tokens.first(std::min(tokens.size(), static_cast<size_t>(window)));
    ScopedRequests requests(engine);
    requests.add({.prompt = {scored.begin(), scored.end()},
                  .on_log_probs = [&](std::span<const double> log_probs) { continues = on_log_probs(log_probs); },
                  .options = {.adapter = adapter}});
    while (continues && engine.step()) continue;
    tokens = tokens.subspan(scored.size());
  }
}

}  // namespace folio::infer
