#include "infer/engine/drafts.h"

#include <algorithm>
#include <utility>

namespace folio::infer {
namespace {

// Appends tokens that the form forces, up to a total of `most` tokens. Where the form forces bytes but no single token,
// appends the longest token that these bytes begin with, up to a total of `n_likely` tokens.
void append_forced(FormMask& form, size_t most, size_t n_likely, std::vector<int32_t>& tokens) {
  while (tokens.size() < most) {
    int32_t token = form.forced(tokens);
    if (token < 0 && tokens.size() < n_likely) token = form.likely(tokens);
    if (token < 0) return;
    tokens.push_back(token);
  }
}

}  // namespace

// Doubles the number of drafts after a step in which all were correct, and otherwise tries one more than were correct.
// After the first, second, … step without a correct draft, waits 1, 2, 4, … up to 32 steps. A correct draft halves the
// count of such steps instead of resetting it.
void DraftPace::learn(size_t n_drafts, size_t n_right) {
  if (n_drafts == 0) {
    pause_ -= pause_ > 0 ? 1 : 0;
    return;
  }
  n_ = std::min(most_, n_right == n_drafts ? 2 * n_ : n_right + 1);
  misses_ = n_right > 0 ? misses_ / 2 : std::min<size_t>(misses_ + 1, 6);
  if (n_right == 0) pause_ = size_t{1} << (misses_ - 1);
}

std::optional<Drafter::Text> Drafts::begin(std::span<const int32_t> history, size_t first, size_t most,
                                           Sampler& sampler) {
  clear();
  const size_t n_wanted = std::min(most, pace_.n_wanted());
  if ((sampler.form() != nullptr ? most : n_wanted) == 0) return {};
  tokens_.insert(tokens_.end(), history.begin() + static_cast<std::ptrdiff_t>(n_history_), history.end());
  n_history_ = history.size();
  if (sampler.form() != nullptr) append_forced(*sampler.form(), n_history_ + most, n_history_ + n_wanted, tokens_);
  if (n() >= n_wanted) return {};
  return Drafter::Text{.tokens = tokens_,
                       .first = first,
                       .most = n_wanted - n(),
                       .n_misses = pace_.n_misses(),
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
  pace_.learn(n_issued_, n_right);
  n_tried_ += std::exchange(n_issued_, 0);
  n_right_ += n_right;
  clear();
}

}  // namespace folio::infer
