#include "infer/engine/drafts.h"

#include <utility>

namespace folio::infer {
namespace {

// Appends tokens that `form` (structured output) forces, up to a total of `most` tokens. If the next bytes are forced
// but may be tokenized in several ways, appends the longest token that these bytes begin with, up to a total of
// `n_likely` tokens. Returns the number of tokens appended before the first token that is not forced.
size_t append_forced(FormMask& form, size_t most, size_t n_likely, std::vector<int32_t>& tokens) {
  size_t n_forced = 0;
  bool all_forced = true;
  while (tokens.size() < most) {
    int32_t token = form.forced(tokens);
    all_forced = all_forced && token >= 0;
    if (token < 0 && tokens.size() < n_likely) token = form.likely(tokens);
    if (token < 0) break;
    tokens.push_back(token);
    n_forced += all_forced ? 1 : 0;
  }
  return n_forced;
}

}  // namespace

std::optional<Drafter::Input> Drafts::begin(std::span<const int32_t> history, size_t first, size_t most,
                                            size_t n_wanted, Sampler& sampler) {
  clear();
  const bool after_pause = n_idle_ + n_ahead_ > 0 || n_tried_ == 0;
  n_forced_ = n_ahead_ = 0;
  n_idle_ = n_wanted > 0 ? 0 : n_idle_ + 1;
  if ((sampler.form() != nullptr ? most : n_wanted) == 0) return {};
  tokens_.insert(tokens_.end(), history.begin() + static_cast<std::ptrdiff_t>(n_history_), history.end());
  n_history_ = history.size();
  if (sampler.form() != nullptr) {
    n_forced_ = append_forced(*sampler.form(), n_history_ + most, n_history_ + n_wanted, tokens_);
  }
  if (n() >= n_wanted) return {};
  return Drafter::Input{.tokens = tokens_,
                        .first = first,
                        .most = n_wanted - n(),
                        .n_misses = n_misses(),
                        .after_pause = after_pause,
                        .sampler = sampler,
                        .memory = memory_};
}

void Drafts::preempted() {
  clear();
  memory_.reset();
}

std::span<const int32_t> Drafts::issue(size_t most, FormMask* form) {
  for (size_t n = n_history_; form != nullptr && n < tokens_.size(); ++n) {
    if (!form->accepts(tokens_[n], std::span(tokens_).first(n))) tokens_.resize(n);
  }
  n_issued_ = std::min(most, n());
  return std::span(tokens_).first(n_history_ + n_issued_);
}

void Drafts::learn(size_t n_right) {
  const size_t n_forced = std::min(n_forced_, n_issued_);
  if (n_right >= n_forced) acceptance_.learn(n_issued_ - n_forced, n_right - n_forced);
  n_tried_ += std::exchange(n_issued_, 0);
  n_right_ += n_right;
  clear();
}

}  // namespace folio::infer
