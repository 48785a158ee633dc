// Generates outputs under a form (a constraint, such as a regular expression), and computes the probability of the
// allowed tokens at each step.
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

/// A token of an output, compared with all tokens that the form allowed at its position.
struct Step {
  int32_t token;
  double p;     ///< the token's probability under the model
  double mass;  ///< total probability of the allowed tokens under the model; m in README.md
  size_t n_allowed;
};

/// Returns the steps of `text` after `prompt`, with probabilities at temperature 1. Ends where the form allows no
/// further token, or after a token that it rejects.
[[nodiscard]] std::vector<Step> walk(infer::Engine& engine, const data::Tokenizer& tokenizer, infer::forms::Form& form,
                                     const Tokens& prompt, std::span<const int32_t> text);

/// Returns ln of the product of `factor`, Step::p or Step::mass, over the steps.
[[nodiscard]] double log_product(std::span<const Step> steps, double Step::*factor);

struct Drawing {
  std::shared_ptr<infer::forms::Form> form{};  ///< null: unconstrained
  int64_t max_tokens = 0;
  std::vector<std::string> stops{};
  uint64_t seed = 0;     ///< seed of the first prompt; each further prompt uses the next seed
  size_t speculate = 0;  ///< maximum number of draft tokens in a step
};
/// Continues each prompt by sampling at temperature 1, without top-k or top-p. If drawing.form is not null, it masks
/// the logits. Returns the results in the order of `prompts`.
[[nodiscard]] std::vector<infer::GenerateResult> drawn(infer::Engine& engine, const data::Tokenizer& tokenizer,
                                                       std::span<const Tokens> prompts, const Drawing& drawing);

/// Returns the ids of all tokens that the form allows in its state `place`.
[[nodiscard]] Tokens allowed_tokens(infer::forms::Form& form, infer::forms::Form::Place place);

}  // namespace folio::experiments
