// What a form decides of a sequence: when it ends, and which tokens may be tried as drafts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "infer/engine/policy.h"
#include "infer/sampling/form_mask.h"

namespace folio::infer {

/// Returns Stop if the form is complete and allows nothing more, Form if no token of the vocabulary is allowed.
[[nodiscard]] inline std::optional<FinishReason> end_of_form(FormMask& form, std::span<const int32_t> history) {
  const WayOn way_on = form.way_on(history);
  if (way_on == WayOn::Tokens) return {};
  return way_on == WayOn::End ? FinishReason::Stop : FinishReason::Form;
}

/// Returns why a sequence ends for which no token can be drawn.
[[nodiscard]] inline FinishReason end_without_token(FormMask& form, std::span<const int32_t> history) {
  return end_of_form(form, history).value_or(form.may_end(history) ? FinishReason::Stop : FinishReason::Form);
}

/// Appends tokens that the form forces, up to `most` in all; and, up to `n_likely`, those with most of the bytes that
/// it forces.
inline void append_forced(FormMask& form, size_t most, size_t n_likely, std::vector<int32_t>& tokens) {
  while (tokens.size() < most) {
    int32_t token = form.forced(tokens);
    if (token < 0 && tokens.size() < n_likely) token = form.likely(tokens);
    if (token < 0) return;
    tokens.push_back(token);
  }
}

/// Removes the tokens from the first one on, after `n_kept`, that the form forbids, or that would end the sequence.
inline void cut_forbidden(FormMask& form, size_t n_kept, std::vector<int32_t>& tokens) {
  for (size_t n = n_kept; n < tokens.size(); ++n) {
    if (!form.goes_on_with(tokens[n], std::span(tokens).first(n))) tokens.resize(n);
  }
}

}  // namespace folio::infer
