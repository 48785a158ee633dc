// Sampling of one sequence: draws its tokens, decodes them, and ends it at a stop string, a stop word, an end token,
// the end of its structured output, or the maximum length.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/tokenizers/tokenizer.h"
#include "infer/engine/request.h"
#include "infer/sampling/sampler.h"
#include "infer/sampling/stop_filter.h"

namespace folio::infer {

class Sampling {
 public:
  /// Creates the sampling state of one sequence of at most `n_most` tokens, including the prompt. The options' stop
  /// strings, stop words and end tokens apply. Null `tokenizer`: tokens are not decoded, and stop strings are ignored.
  /// `options` and `tokenizer` must outlive the object.
  Sampling(Sampler sampler, const GenerateOptions& options, const data::Tokenizer* tokenizer, size_t n_most)
      : sampler_(std::move(sampler)),
        options_(&options),
        tokenizer_(tokenizer),
        n_most_(n_most),
        filter_(options.stops) {}

  [[nodiscard]] Sampler& sampler() { return sampler_; }
  [[nodiscard]] const std::string& text() const { return text_; }

  [[nodiscard]] bool is_end_token(int32_t token) const;
  /// Returns whether `token` is forbidden after `history`, ends the output or continues it. Ignores the maximum length.
  [[nodiscard]] TokenEffect effect_of(std::span<const int32_t> history, int32_t token);
  /// Decodes the last token of `history`, which must not be an end token. Returns the new text that can be shown: text
  /// that may become a stop string is held back.
  [[nodiscard]] std::string push(std::span<const int32_t> history);
  /// Returns the reason why a sequence with this history ends; nullopt if it continues.
  [[nodiscard]] std::optional<FinishReason> end_of(std::span<const int32_t> history);
  /// Returns the finish reason of a sequence with structured output for which no token can be drawn.
  [[nodiscard]] FinishReason end_without_token(std::span<const int32_t> history);
  /// Ends the sequence and returns the text that push() held back.
  [[nodiscard]] std::string finish();
  /// Copies the decoded text and the partial stop-string match of `parent`, of which this sequence is a fork.
  void fork(const Sampling& parent);

 private:
  Sampler sampler_;
  const GenerateOptions* options_;
  const data::Tokenizer* tokenizer_;
  size_t n_most_;
  StopFilter filter_;
  std::string text_;
  bool at_stop_word_ = false;
};

}  // namespace folio::infer
