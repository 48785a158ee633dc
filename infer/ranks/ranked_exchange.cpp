#include "infer/ranks/ranked_exchange.h"

#include <cstring>

#include "core/error.h"

namespace folio::infer {

void RankedExchange::begin(size_t /*rank*/, const std::array<float*, kSlots>& slots, const SlotWidths& widths) {
  slots_ = slots;
  widths_ = widths;
  to_all_.clear();
  to_first_.clear();
}

void RankedExchange::give(size_t rank, const SlotPart& part) {
  const bool to_first = part.slot == Slot::Logits;
  if (to_first && rank == 0) return;
  std::vector<std::byte>& out = to_first ? to_first_ : to_all_;
  const auto slot = static_cast<size_t>(part.slot);
  const size_t row_bytes = (part.last - part.first) * sizeof(float);
  size_t at = out.size();
  out.resize(at + sizeof(part) + part.n_rows * row_bytes);
  std::memcpy(&out[at], &part, sizeof(part));
  at += sizeof(part);
  for (size_t row = part.first_row; row < part.first_row + part.n_rows; ++row, at += row_bytes) {
    std::memcpy(&out[at], slots_[slot] + row * widths_[slot] + part.first, row_bytes);
  }
  given_bytes_ += part.n_rows * row_bytes * (to_first ? 1 : n_members_ - 1);
}

void RankedExchange::meet() {
  rounds_->meet(
      to_all_, to_first_, [this](size_t, std::span<const std::byte> bytes) { take(bytes); }, timeout_);
  to_all_.clear();
  to_first_.clear();
}

void RankedExchange::take(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    SlotPart part{};
    core::require(bytes.size() >= sizeof(part), "a rank's part of a slot is cut off");
    std::memcpy(&part, bytes.data(), sizeof(part));
    bytes = bytes.subspan(sizeof(part));
    const auto slot = static_cast<size_t>(part.slot);
    const size_t row_bytes = (part.last - part.first) * sizeof(float);
    core::require(slot < kSlots && part.last <= widths_[slot] && part.n_rows * row_bytes <= bytes.size(),
                  "a rank's part of a slot is of another model");
    for (size_t row = part.first_row; row < part.first_row + part.n_rows; ++row) {
      std::memcpy(slots_[slot] + row * widths_[slot] + part.first, bytes.data(), row_bytes);
      bytes = bytes.subspan(row_bytes);
    }
  }
}

}  // namespace folio::infer
