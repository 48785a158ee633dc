#include "infer/sampling/form_mask.h"

#include <algorithm>

#include "core/error.h"
#include "infer/forms/form.h"
#include "infer/sampling/ranking.h"

namespace folio::infer {

using forms::Form;

namespace {

constexpr Form::Place kForgotten = -2;

}  // namespace

FormMask::FormMask(std::shared_ptr<Form> form, const data::Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
                   size_t n_prompt)
    : form_(std::move(form)),
      tokenizer_(&tokenizer),
      n_prompt_(n_prompt),
      generation_(form_->generation()),
      places_{form_->start()} {
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.token_bytes(id).empty()) silent_.push_back(id);
    if (tokenizer.ends_text(id) || std::ranges::find(end_tokens, id) != end_tokens.end()) ends_.push_back(id);
  }
  const size_t n_tokens = form_->tokens().tokens().size() + silent_.size();
  core::require(n_tokens == static_cast<size_t>(tokenizer.vocab_size()),
                "the form was compiled for another vocabulary: it has {} tokens with text, but the model's has {}",
                form_->tokens().tokens().size(), static_cast<size_t>(tokenizer.vocab_size()) - silent_.size());
}

template <typename Look>
auto FormMask::within_capacity(Look look) {
  try {
    return look(places_.back());
  } catch (const forms::CapacityExceeded&) {
    const Place kept = form_->forget(places_.back());
    generation_ = form_->generation();
    std::ranges::fill(places_, kForgotten);
    places_.front() = form_->start();
    places_.back() = kept;
    return look(kept);
  }
}

// Reuses the states of the tokens that `history` has in common with the last call's history, and processes only the
// tokens after them.
template <typename Look>
auto FormMask::at(std::span<const int32_t> history, Look look) {
  const auto text = history.subspan(n_prompt_);
  auto n_same = static_cast<size_t>(std::ranges::mismatch(text, tokens_).in1 - text.begin());
  if (generation_ != form_->generation() || places_[n_same] == kForgotten) {
    n_same = 0;
    places_.front() = form_->start();
    generation_ = form_->generation();
  }
  tokens_.resize(n_same);
  places_.resize(n_same + 1);
  for (const int32_t token : text.subspan(n_same)) {
    const Place next = within_capacity([&](Place place) { return after(place, token); });
    tokens_.push_back(token);
    places_.push_back(next);
  }
  return within_capacity(look);
}

bool FormMask::keep_allowed(std::span<float> logits, std::span<const int32_t> history) try {
  return at(history, [&](Place place) {
    if (place == Form::kDead) return false;
    const Form::Ranges& allowed = form_->allowed(place);
    const bool may_end = form_->may_end(place);
    if (allowed.empty() && !may_end) return false;
    std::vector<float> of_ends;
    for (const int32_t id : ends_) of_ends.push_back(logits[static_cast<size_t>(id)]);
    mask(logits, allowed);
    for (size_t i = 0; i < ends_.size(); ++i) {
      logits[static_cast<size_t>(ends_[i])] = may_end ? of_ends[i] : kForbidden;
    }
    return true;
  });
} catch (const core::Error&) {  // ignored here: allowed_after() throws it again if the sequence continues
  return false;
}

// Sets all logits except those of `allowed` to kForbidden. If few are allowed, saves and restores those logits;
// otherwise writes only the forbidden ones.
void FormMask::mask(std::span<float> logits, std::span<const std::pair<uint32_t, uint32_t>> allowed) {
  const std::span<const int32_t> tokens = form_->tokens().tokens();
  size_t n_allowed = 0;
  for (const auto& [first, last] : allowed) n_allowed += last - first;
  if (2 * n_allowed < tokens.size()) {
    kept_.clear();
    for (const auto& [first, last] : allowed) {
      for (const int32_t id : tokens.subspan(first, last - first)) kept_.push_back(logits[static_cast<size_t>(id)]);
    }
    std::ranges::fill(logits, kForbidden);
    size_t k = 0;
    for (const auto& [first, last] : allowed) {
      for (const int32_t id : tokens.subspan(first, last - first)) logits[static_cast<size_t>(id)] = kept_[k++];
    }
    return;
  }
  const auto forbid = [&](std::span<const int32_t> ids) {
    for (const int32_t id : ids) logits[static_cast<size_t>(id)] = kForbidden;
  };
  size_t next = 0;
  for (const auto& [first, last] : allowed) {
    forbid(tokens.subspan(next, first - next));
    next = last;
  }
  forbid(tokens.subspan(next));
  forbid(silent_);
}

int32_t FormMask::forced(std::span<const int32_t> history) try {
  return at(history, [&](Place place) {
    if (place == Form::kDead || form_->may_end(place)) return -1;
    const Form::Ranges& allowed = form_->allowed(place);
    if (allowed.size() != 1 || allowed[0].second - allowed[0].first != 1) return -1;
    const int32_t token = form_->tokens().tokens()[allowed[0].first];
    return accepts(token, place) ? token : -1;
  });
} catch (const core::Error&) {
  return -1;
}

int32_t FormMask::likely(std::span<const int32_t> history) try {
  return at(history, [&](Place place) {
    const std::span<const forms::TokenTree::Node> nodes = form_->tokens().nodes();
    int32_t longest = -1;
    size_t n = 0;
    size_t end = nodes.size();
    for (Place next = place; next != Form::kDead && n < end;) {
      const auto byte = form_->forced(next);
      if (!byte) break;
      while (n < end && nodes[n].byte != *byte) n = nodes[n].next;
      if (n == end) break;
      if (nodes[n].own > nodes[n].first) longest = form_->tokens().tokens()[nodes[n].first];
      end = nodes[n].next;
      ++n;
      next = form_->after(next, *byte);
    }
    return longest >= 0 && accepts(longest, place) ? longest : -1;
  });
} catch (const core::Error&) {
  return -1;
}

bool FormMask::accepts(int32_t token, std::span<const int32_t> history) try {
  return at(history, [&](Place place) { return accepts(token, place); });
} catch (const core::Error&) {
  return false;
}

bool FormMask::accepts(int32_t token, Place place) {
  if (place == Form::kDead || ends(token) || tokenizer_->token_bytes(token).empty()) return false;
  return allowed_at(after(place, token)) == Allowed::Tokens;
}

bool FormMask::may_end(std::span<const int32_t> history) {
  return at(history, [&](Place place) { return place != Form::kDead && form_->may_end(place); });
}

Allowed FormMask::allowed_after(std::span<const int32_t> history) {
  return at(history, [&](Place place) { return allowed_at(place); });
}

Allowed FormMask::allowed_after(std::span<const int32_t> history, int32_t token) {
  return at(history, [&](Place place) { return allowed_at(after(place, token)); });
}

Allowed FormMask::allowed_at(Place place) {
  if (place == Form::kDead) return Allowed::None;
  if (!form_->allowed(place).empty()) return Allowed::Tokens;
  return form_->may_end(place) ? Allowed::End : Allowed::None;
}

FormMask::Place FormMask::after(Place place, int32_t token) {
  return place == Form::kDead ? place : form_->after(place, tokenizer_->token_bytes(token));
}

bool FormMask::ends(int32_t token) const { return std::ranges::find(ends_, token) != ends_.end(); }

}  // namespace folio::infer
