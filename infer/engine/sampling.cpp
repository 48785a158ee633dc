#include "infer/engine/sampling.h"

#include <algorithm>

namespace folio::infer {
namespace {

// Returns Stop if the form is complete and allows no token, Form if it is incomplete and allows none, else nullopt.
std::optional<FinishReason> end_of_form(FormMask& form, std::span<const int32_t> history) {
  const Allowed allowed = form.allowed_after(history);
  if (allowed == Allowed::Tokens) return {};
  return allowed == Allowed::End ? FinishReason::Stop : FinishReason::Form;
}

}  // namespace

bool Sampling::is_end_token(int32_t token) const {
  return (tokenizer_ != nullptr && tokenizer_->ends_text(token)) ||
         std::ranges::find(options_->end_tokens, token) != options_->end_tokens.end();
}

TokenEffect Sampling::effect_of(std::span<const int32_t> history, int32_t token) {
  if (sampler_.forbids(token, history)) return TokenEffect::Forbidden;
  FormMask* const form = sampler_.form();
  if (is_end_token(token))
    return form != nullptr && !form->may_end(history) ? TokenEffect::Forbidden : TokenEffect::Ends;
  const Allowed allowed = form == nullptr ? Allowed::Tokens : form->allowed_after(history, token);
  if (allowed == Allowed::None) return TokenEffect::Forbidden;
  const bool ends = allowed == Allowed::End || ends_with_word(history, token, options_->stop_words) ||
                    (tokenizer_ != nullptr && filter_.would_stop(tokenizer_->token_bytes(token)));
  return ends ? TokenEffect::Ends : TokenEffect::Continues;
}

std::string Sampling::push(std::span<const int32_t> history) {
  at_stop_word_ = ends_with_word(history.first(history.size() - 1), history.back(), options_->stop_words);
  std::string text = tokenizer_ == nullptr ? "" : filter_.push(tokenizer_->token_bytes(history.back()));
  text_ += text;
  return text;
}

std::optional<FinishReason> Sampling::end_of(std::span<const int32_t> history) {
  if (at_stop_word_ || filter_.stopped()) return FinishReason::Stop;
  if (FormMask* form = sampler_.form()) {
    if (const auto reason = end_of_form(*form, history)) return reason;
  }
  return history.size() >= n_most_ ? std::optional(FinishReason::Length) : std::nullopt;
}

FinishReason Sampling::end_without_token(std::span<const int32_t> history) {
  FormMask& form = *sampler_.form();
  return end_of_form(form, history).value_or(form.may_end(history) ? FinishReason::Stop : FinishReason::Form);
}

std::string Sampling::finish() {
  std::string text = filter_.finish();
  text_ += text;
  return text;
}

void Sampling::fork(const Sampling& parent) {
  filter_ = parent.filter_;
  text_ = parent.text_;
}

}  // namespace folio::infer
