// Sampling of one sequence: draws its tokens, decodes them, and ends it at a stop string, a stop word, an end token,
// the end of its form or the maximum length.
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
    const data::Tokenizer* tokenizer;  ///< null: tokens are not decoded, and only end_tokens and words end the sequence
    core::SharedVector<std::string> texts;
    std::span<const int32_t> end_tokens;
    std::span<const std::vector<int32_t>> words;
    size_t n_most;  ///< maximum length of the history
  };

  /// Everything that `stops` refers to must outlive this object.
  Sampling(Sampler sampler, Stops stops)
      : sampler_(std::move(sampler)), stops_(std::move(stops)), filter_(stops_.texts) {}

  [[nodiscard]] Sampler& sampler() { return sampler_; }
  [[nodiscard]] const std::string& text() const { return text_; }

  [[nodiscard]] bool is_end_token(int32_t token) const;
  /// Returns the effect of `token` after `history`, apart from the maximum length.
  [[nodiscard]] TokenEffect effect_of(std::span<const int32_t> history, int32_t token);
  /// Processes the last token of `history`, which is no end token. Returns new text that can be shown.
  [[nodiscard]] std::string push(std::span<const int32_t> history);
  /// Returns the reason why a sequence with this history ends, if it does.
  [[nodiscard]] std::optional<FinishReason> end_of(std::span<const int32_t> history);
  /// Returns the text that was held back, at the end of the sequence.
  [[nodiscard]] std::string finish();
  /// Copies the decoded text and the stop string matches of `parent`.
  void fork(const Sampling& parent);

 private:
  Sampler sampler_;
  Stops stops_;
  StopFilter filter_;
  std::string text_;
  bool at_stop_word_ = false;
};

}  // namespace folio::infer
