// How a form (the constraint of a structured output) affects a sequence: when it ends, and which drafts can be tried.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "infer/engine/policy.h"
#include "infer/sampling/form_mask.h"

namespace folio::infer {

/// Returns Stop if the form is complete and allows no token, Form if it is incomplete and allows none, else nullopt.
[[nodiscard]] inline std::optional<FinishReason> end_of_form(FormMask& form, std::span<const int32_t> history) {
  const WayOn way_on = form.way_on(history);
  if (way_on == WayOn::Tokens) return {};
  return way_on == WayOn::End ? FinishReason::Stop : FinishReason::Form;
}

/// Returns the finish reason of a sequence for which no token can be drawn.
[[nodiscard]] inline FinishReason end_without_token(FormMask& form, std::span<const int32_t> history) {
  return end_of_form(form, history).value_or(form.may_end(history) ? FinishReason::Stop : FinishReason::Form);
}

/// Appends tokens that the form forces, up to a total of `most` tokens. Where the form forces bytes but no token,
/// appends the token that covers most of these bytes, up to a total of `n_likely` tokens.
inline void append_forced(FormMask& form, size_t most, size_t n_likely, std::vector<int32_t>& tokens) {
  while (tokens.size() < most) {
    int32_t token = form.forced(tokens);
    if (token < 0 && tokens.size() < n_likely) token = form.likely(tokens);
    if (token < 0) return;
    tokens.push_back(token);
  }
}

/// Truncates `tokens` at the first one, from index `n_kept` on, that the form forbids or that would end the sequence.
inline void cut_forbidden(FormMask& form, size_t n_kept, std::vector<int32_t>& tokens) {
  for (size_t n = n_kept; n < tokens.size(); ++n) {
    if (!form.accepts(tokens[n], std::span(tokens).first(n))) tokens.resize(n);
  }
}

}  // namespace folio::infer
