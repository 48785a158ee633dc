// Sampling of one sequence: draws its tokens, decodes them, and ends it at a stop string, a stop word, an end token,
// the end of its structured output, or the maximum length.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "infer/engine/policy.h"
#include "infer/sampling/sampler.h"
#include "infer/sampling/stop_filter.h"

namespace folio::infer {

class Sampling {
 public:
  struct Stops {
    const data::Tokenizer* tokenizer;  ///< null: tokens are not decoded, and only end_tokens and words are checked
    core::SharedVector<std::string> texts;
    std::span<const int32_t> end_tokens;
    std::span<const std::vector<int32_t>> words;
    size_t n_most;  ///< maximum number of tokens, including the prompt
  };

  /// Creates the sampling state of one sequence. Everything that `stops` refers to must outlive it.
  Sampling(Sampler sampler, Stops stops)
      : sampler_(std::move(sampler)), stops_(std::move(stops)), filter_(stops_.texts) {}

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
  Stops stops_;
  StopFilter filter_;
  std::string text_;
  bool at_stop_word_ = false;
};

}  // namespace folio::infer
