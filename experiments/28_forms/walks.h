// Generates outputs under a form and computes what the form does at each token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "infer/engine/engine.h"
#include "infer/forms/forms.h"

namespace folio::experiments {

using Tokens = std::vector<int32_t>;

/// A token of an output, at a position where the form allows some tokens.
struct Step {
  int32_t token;
  double p;          ///< the token's probability under the model
  double mass;       ///< probability of all allowed tokens under the model; m in the README
  size_t n_allowed;  ///< number of allowed tokens
};

/// Returns the steps of `text` after the prompt, with the model's distributions at temperature 1. `text` must begin a
/// text of the form, possibly followed by more; the walk ends where the form allows no further token.
[[nodiscard]] std::vector<Step> walk(infer::Engine& engine, const data::Tokenizer& tokenizer, infer::forms::Form& form,
                                     const Tokens& prompt, std::span<const int32_t> text);

/// Return ln of the product of the steps' p, and of their masses.
[[nodiscard]] double log_p(std::span<const Step> steps);
[[nodiscard]] double log_mass(std::span<const Step> steps);

struct Drawing {
  std::shared_ptr<infer::forms::Form> form{};  ///< null: unconstrained
  int64_t max_tokens = 0;
  std::vector<std::string> stops{};
  uint64_t seed = 0;     ///< seed of the first output; increases by one for each
  size_t speculate = 0;  ///< number of draft tokens
};
/// Continues each prompt by sampling at temperature 1, with no truncation except the form.
[[nodiscard]] std::vector<infer::GenerateResult> drawn(infer::Engine& engine, const data::Tokenizer& tokenizer,
                                                       std::span<const Tokens> prompts, const Drawing& drawing);

/// Returns the ids of all allowed tokens.
[[nodiscard]] Tokens allowed_tokens(infer::forms::Form& form, infer::forms::Form::Place place);

}  // namespace folio::experiments
