#include "infer/forward/exchange.h"

#include <cstring>

#include "core/error.h"
#include "infer/forward/eight_bits.h"

namespace folio::infer {
namespace {

size_t row_bytes(const SlotPart& part) {
  const size_t n = part.last - part.first;
  return part.in_eight_bits ? n / kEightBitsGroup * sizeof(EightBits) : n * sizeof(float);
}

}  // namespace

void Exchange::begin(const std::array<float*, kSlots>& slots, const SlotWidths& widths) {
  slots_ = slots;
  widths_ = widths;
  out_.clear();
  n_to_all_ = 0;
}

// Queues the part as floats or, if both the part and this exchange allow it, in 8 bits. Groups of 32 columns that are
// split between two ranks are always sent as floats.
void Exchange::queue(const SlotPart& part) {
  if (part.slot == Slot::Logits && index_ == 0) return;
  SlotPart before = part, groups = part, after = part;
  before.in_eight_bits = after.in_eight_bits = false;
  if (part.in_eight_bits && in_eight_bits_) {
    groups.first = std::min(part.last, (part.first + kEightBitsGroup - 1) / kEightBitsGroup * kEightBitsGroup);
    groups.last = std::max(groups.first, part.last / kEightBitsGroup * kEightBitsGroup);
  } else {
    groups.first = groups.last = part.last;
  }
  before.last = groups.first;
  after.first = groups.last;
  for (const SlotPart& some : {before, groups, after}) append(some);
}

// Appends a part to the message: the bytes of the SlotPart struct, then the values of its rows.
void Exchange::append(const SlotPart& part) {
  if (part.first == part.last) return;
  const auto slot = static_cast<size_t>(part.slot);
  const auto append_bytes = [this](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    out_.insert(out_.end(), bytes.begin(), bytes.end());
  };
  append_bytes(std::span(&part, 1));
  for (size_t row = part.first_row; row < part.first_row + part.n_rows; ++row) {
    std::span<const float> x(slots_[slot] + row * widths_[slot] + part.first, part.last - part.first);
    if (!part.in_eight_bits) append_bytes(x);
    for (; part.in_eight_bits && !x.empty(); x = x.subspan(kEightBitsGroup)) {
      const EightBits bits = to_eight_bits(x.first<kEightBitsGroup>());
      append_bytes(std::span(&bits, 1));
    }
  }
  const bool to_all = part.slot != Slot::Logits;
  if (to_all) n_to_all_ = out_.size();
  sent_bytes_ += part.n_rows * row_bytes(part) * (to_all ? n_members_ - 1 : 1);
}

void Exchange::all_gather() {
  transport_->all_gather(
      out_, n_to_all_, [this](size_t, std::span<const std::byte> bytes) { store(bytes); }, timeout_);
  std::swap(out_, last_out_);
  out_.clear();
  n_to_all_ = 0;
}

void Exchange::store(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    SlotPart part{};
    core::require(bytes.size() >= sizeof(part), "received a truncated part of a slot from another rank");
    std::memcpy(&part, bytes.data(), sizeof(part));
    bytes = bytes.subspan(sizeof(part));
    const auto slot = static_cast<size_t>(part.slot);
    core::require(slot < kSlots && part.last <= widths_[slot] && part.n_rows * row_bytes(part) <= bytes.size(),
                  "received a part of a slot that does not match this model");
    for (size_t row = part.first_row; row < part.first_row + part.n_rows; ++row) {
      std::span<float> x(slots_[slot] + row * widths_[slot] + part.first, part.last - part.first);
      if (!part.in_eight_bits) std::memcpy(x.data(), bytes.data(), x.size_bytes());
      for (const std::byte* from = bytes.data(); part.in_eight_bits && !x.empty(); from += sizeof(EightBits)) {
        EightBits bits{};
        std::memcpy(&bits, from, sizeof(bits));
        from_eight_bits(bits, x.first<kEightBitsGroup>());
        x = x.subspan(kEightBitsGroup);
      }
      bytes = bytes.subspan(row_bytes(part));
    }
  }
}

uint64_t exchanged_bytes(const core::ModelConfig& config, size_t n_ranks, size_t rows, size_t logit_rows,
                         bool in_blocks) {
  const SlotWidths widths = slot_widths(config);
  const auto width = [&](Slot slot) { return widths[static_cast<size_t>(slot)]; };
  const auto expert_dim = static_cast<size_t>(config.expert_dim);
  // Returns the bytes per row that a rank saves by sending the whole groups among its columns `own` in 8 bits.
  const auto saved = [&](Share own) {
    const size_t first = (own.first + kEightBitsGroup - 1) / kEightBitsGroup;
    const size_t groups = std::max(first, own.last / kEightBitsGroup) - first;
    return in_blocks ? groups * (kEightBitsGroup * sizeof(float) - sizeof(EightBits)) : 0;
  };
  size_t to_all = rows * width(Slot::Residual) * sizeof(float);
  for (int64_t l = 0; l < config.n_layers; ++l) {
    to_all += rows * (width(Slot::Query) + width(Slot::Key) + width(Slot::Value)) * sizeof(float);
    to_all += rows * (width(Slot::QueryLatent) + width(Slot::Latent)) * sizeof(float);
    size_t rest = width(Slot::Heads) + width(Slot::Residual);
    const bool experts = config.has_experts(l);
    if (experts) rest += width(Slot::Routes) + width(Slot::ExpertGate) + width(Slot::Residual);
    if (!experts) rest += width(Slot::Gate) + width(Slot::Residual);
    if (experts && config.shared_dim > 0) rest += width(Slot::SharedGate) + width(Slot::Residual);
    rest *= sizeof(float);
    for (size_t rank = 0; rank < n_ranks; ++rank) {
      const size_t each = width(Slot::Heads) / static_cast<size_t>(config.n_kv_heads);
      const Share heads = share_of(static_cast<size_t>(config.n_kv_heads), rank, n_ranks);
      rest -= saved({heads.first * each, heads.last * each});
      if (!experts) rest -= saved(rows_of_rank(width(Slot::Gate), rank, n_ranks));
      const Share expert = rows_of_rank(expert_dim, rank, n_ranks);
      for (size_t first = 0; experts && first < width(Slot::ExpertGate); first += expert_dim) {
        rest -= saved({first + expert.first, first + expert.last});
      }
    }
    to_all += rest * (l + 1 < config.n_layers ? rows : logit_rows);  // the last layer keeps only rows with logits
  }
  const size_t own = rows_of_rank(width(Slot::Logits), 0, n_ranks).last;
  return (n_ranks - 1) * to_all + logit_rows * (width(Slot::Logits) - own) * sizeof(float);
}

}  // namespace folio::infer
