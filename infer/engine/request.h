// What a caller asks of the engine, and what it gets.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "infer/forward/forward.h"
#include "infer/sampling/sampler.h"

namespace folio::infer {

/// How a text goes on.
struct GenerateOptions {
  int64_t max_tokens = 0;  ///< tokens to generate; 0: none is sampled
  SamplerOptions sampler{};
  std::vector<std::string> stops{};   ///< texts that end it; need a tokenizer
  std::vector<int32_t> end_tokens{};  ///< end the text, beside those of the tokenizer's ends_text()
  /// At most so many tokens are guessed (see Engine::draft_with) and tried in one step; 0: none. The result is the
  /// same, and comes faster where guesses are right.
  size_t speculate = 0;
  int64_t context = 0;  ///< positions that may be used; 0: the model's context length
  bool slide = false;   ///< at the end of the context keep the last half and go on
};

/// A prompt, what is wanted of its rows, and how it goes on. The callbacks are called from step(), and must not call
/// the engine.
struct Request {
  std::vector<int32_t> prompt;

  // Of the prompt's rows.
  /// Gets ln p(prompt[i + 1] | prompt[0..i]) for consecutive i, from the first row that is computed on.
  std::function<void(std::span<const double> log_probs)> on_log_probs{};
  /// Gets (rows, vocab_size) likewise.
  std::function<void(std::span<const float> logits)> on_logits{};
  /// Sees the steps of this request, in which no other takes part.
  Observer observer{};

  // How it goes on.
  GenerateOptions options{};
  /// Gives the text its bytes, and says which tokens end it and which are suppressed. Null: tokens alone, of which any
  /// may be sampled and none ends.
  const data::Tokenizer* tokenizer = nullptr;
  std::function<void(std::string_view text)> on_text{};  ///< gets the text as it comes, in whole UTF-8 characters
  /// Gets each token that is part of the result, before its text; and, if wants_token_logits, the logits (vocab_size)
  /// that the model gave before it, as they were before biases and penalties.
  std::function<void(int32_t token, std::span<const float> logits)> on_token{};
  bool wants_token_logits = false;
};

enum class FinishReason { Stop, Length, Interrupted };

[[nodiscard]] std::string_view finish_reason_name(FinishReason reason);

struct GenerateResult {
  std::vector<int32_t> tokens;  ///< generated, without the prompt
  std::string text;             ///< what they say, up to a stop string
  FinishReason finish_reason = FinishReason::Length;
  size_t n_cached = 0;           ///< tokens of the prompt that were cached, and not computed
  size_t n_drafts = 0;           ///< that were tried
  size_t n_right = 0;            ///< drafts that were
  double prefill_seconds = 0.0;  ///< from the first step to the first token
  double decode_seconds = 0.0;   ///< of all tokens after the first
};

}  // namespace folio::infer
