// Sampling of one sequence: its sampler draws the tokens, their bytes become text, and stop texts, stop words, end
// tokens, the form and the number of tokens end it.
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
    const data::Tokenizer* tokenizer;  ///< null: tokens without text, of which none ends the sequence
    core::SharedVector<std::string> texts;
    std::span<const int32_t> end_tokens;
    std::span<const std::vector<int32_t>> words;
    size_t n_most;  ///< tokens of the history when it ends
  };

  /// What `stops` refers to must outlive it. Throws core::Error if an option of the sampler is out of its range.
  Sampling(Sampler sampler, Stops stops)
      : sampler_(std::move(sampler)), stops_(std::move(stops)), filter_(stops_.texts) {}

  [[nodiscard]] Sampler& sampler() { return sampler_; }
  [[nodiscard]] const std::string& text() const { return text_; }

  [[nodiscard]] bool is_end_token(int32_t token) const;
  /// Returns what `token` after `history` would do; the number of tokens is left out.
  [[nodiscard]] TokenEffect effect_of(std::span<const int32_t> history, int32_t token);
  /// Reads the last token of `history`, which is no end token. Returns the text that can be shown.
  [[nodiscard]] std::string push(std::span<const int32_t> history);
  /// Returns why a sequence of these tokens ends, if it does.
  [[nodiscard]] std::optional<FinishReason> end_of(std::span<const int32_t> history);
  /// Returns text that was held back.
  [[nodiscard]] std::string finish();
  /// Continues from the text of `parent`.
  void fork(const Sampling& parent);

 private:
  Sampler sampler_;
  Stops stops_;
  StopFilter filter_;
  std::string text_;
  bool at_stop_word_ = false;
};

}  // namespace folio::infer
