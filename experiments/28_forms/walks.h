// Texts under a form, and what the form does at each of their tokens.
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

/// A token of a text, where the form lets some tokens come.
struct Step {
  int32_t token;
  double p;          ///< the token's probability by the model
  double mass;       ///< of all tokens that may come, by the model: m in the README
  size_t n_allowed;  ///< tokens that may come
};

/// The distribution behind the prompt and each beginning of `text` is the model's own, at temperature 1. `text` is a
/// beginning of a text of the form, or of one and what comes after it: the walk ends where nothing may follow.
[[nodiscard]] std::vector<Step> walk(infer::Engine& engine, const data::Tokenizer& tokenizer, infer::forms::Form& form,
                                     const Tokens& prompt, std::span<const int32_t> text);

/// ln of the product of the steps' p, and of their masses.
[[nodiscard]] double log_p(std::span<const Step> steps);
[[nodiscard]] double log_mass(std::span<const Step> steps);

struct Drawing {
  std::shared_ptr<infer::forms::Form> form{};  ///< null: free
  int64_t max_tokens = 0;
  std::vector<std::string> stops{};
  uint64_t seed = 0;     ///< of the first text; the next one's is one more
  size_t speculate = 0;  ///< tokens
};
/// A text behind each prompt, drawn at temperature 1 without any cut but the form.
[[nodiscard]] std::vector<infer::GenerateResult> drawn(infer::Engine& engine, const data::Tokenizer& tokenizer,
                                                       std::span<const Tokens> prompts, const Drawing& drawing);

/// The ids of all tokens that may come.
[[nodiscard]] Tokens allowed_tokens(infer::forms::Form& form, infer::forms::Form::Place place);

}  // namespace folio::experiments
