#include "infer/ranks/net/logits_inbox.h"

#include <algorithm>

#include "core/error.h"

namespace folio::infer {

Ticket LogitsInbox::expect(uint32_t model, size_t n) {
  all_.push_back({.number = ++n_expected_, .model = model, .n = n});
  return Ticket{n_expected_};
}

void LogitsInbox::receive_all_but(size_t n) {
  for (; n_here_ + n < all_.size(); ++n_here_) {
    Logits& next = all_[n_here_];
    next.values.resize(next.n);
    peers_.receive_floats(from_, Channel::Logits, next.values);
  }
}

std::span<float> LogitsInbox::wait(Ticket ticket) {
  const auto number = static_cast<uint64_t>(ticket);
  const auto wanted = std::ranges::find(all_, number, &Logits::number);
  core::require(wanted != all_.end(), "the logits of step {} were already collected", number);
  receive_all_but(static_cast<size_t>(all_.end() - wanted) - 1);
  const uint32_t model = wanted->model;
  n_here_ -= std::erase_if(all_, [&](const Logits& l) { return l.model == model && l.number < number; });
  return std::ranges::find(all_, number, &Logits::number)->values;
}

}  // namespace folio::infer
