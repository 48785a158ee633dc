// How well a model predicts a text: the log-probability that it gives to each token, in windows that don't overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "infer/engine/engine.h"
#include "infer/engine/prompt_report.h"

namespace folio::infer {

/// Gets ln p of consecutive scored tokens; false ends the scoring.
using OnLogProbs = std::function<bool(std::span<const double> log_probs)>;

/// How many of `n_tokens` are scored in windows of `window`: all but the first of each.
[[nodiscard]] int64_t scored_tokens(int64_t n_tokens, int64_t window);

/// Cuts `tokens` into consecutive windows of `window` tokens, the last one shorter, reads each from an empty cache and
/// scores every token but the window's first, given those before it in the window. A last window of one token has
/// nothing to score. Logits are computed for a few rows at a time, at most some 12 MB of them. Throws core::Error if
/// there is nothing to score, if the window is not in [2, the model's context], or if a logit is not finite.
void score_windows(Engine& engine, std::span<const int32_t> tokens, int64_t window, const OnLogProbs& on_log_probs,
                   int32_t adapter = kNoAdapter);

}  // namespace folio::infer
