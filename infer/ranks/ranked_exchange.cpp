#include "infer/ranks/ranked_exchange.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "infer/ranks/eight_bits.h"
#include "infer/shards/sharded_cpu.h"

namespace folio::infer {
namespace {

// As it is sent: this, and then its rows.
struct Piece {
  SlotPart part;
  bool in_eight_bits;

  [[nodiscard]] size_t row_bytes() const {
    const size_t n = part.last - part.first;
    return in_eight_bits ? n / kEightBitsGroup * sizeof(EightBits) : n * sizeof(float);
  }
};

}  // namespace

void RankedExchange::begin(size_t /*rank*/, const std::array<float*, kSlots>& slots, const SlotWidths& widths) {
  slots_ = slots;
  widths_ = widths;
  to_all_.clear();
  to_first_.clear();
}

// Of columns in 8 bits whole groups go so; what another rank has a part of goes as floats.
void RankedExchange::give(size_t rank, const SlotPart& part) {
  if (part.slot == Slot::Logits && rank == 0) return;
  if (!in_eight_bits_[static_cast<size_t>(part.slot)]) return put(part, false);
  SlotPart before = part, groups = part, behind = part;
  groups.first = std::min(part.last, (part.first + kEightBitsGroup - 1) / kEightBitsGroup * kEightBitsGroup);
  groups.last = std::max(groups.first, part.last / kEightBitsGroup * kEightBitsGroup);
  before.last = groups.first;
  behind.first = groups.last;
  put(before, false);
  put(groups, true);
  put(behind, false);
}

void RankedExchange::put(const SlotPart& part, bool in_eight_bits) {
  if (part.first == part.last) return;
  const bool to_first = part.slot == Slot::Logits;
  std::vector<std::byte>& out = to_first ? to_first_ : to_all_;
  const Piece piece{.part = part, .in_eight_bits = in_eight_bits};
  const size_t row_bytes = piece.row_bytes();
  size_t at = out.size();
  out.resize(at + sizeof(piece) + part.n_rows * row_bytes);
  std::memcpy(&out[at], &piece, sizeof(piece));
  at += sizeof(piece);
  for (size_t row = part.first_row; row < part.first_row + part.n_rows; ++row, at += row_bytes) {
    const float* x =
        slots_[static_cast<size_t>(part.slot)] + row * widths_[static_cast<size_t>(part.slot)] + part.first;
    if (!in_eight_bits) {
      std::memcpy(&out[at], x, row_bytes);
      continue;
    }
    for (size_t group = 0; group * sizeof(EightBits) < row_bytes; ++group) {
      const EightBits bits =
          to_eight_bits(std::span<const float, kEightBitsGroup>(x + group * kEightBitsGroup, kEightBitsGroup));
      std::memcpy(&out[at + group * sizeof(bits)], &bits, sizeof(bits));
    }
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
    Piece piece{};
    core::require(bytes.size() >= sizeof(piece), "a rank's part of a slot is cut off");
    std::memcpy(&piece, bytes.data(), sizeof(piece));
    bytes = bytes.subspan(sizeof(piece));
    const SlotPart& part = piece.part;
    const auto slot = static_cast<size_t>(part.slot);
    const size_t row_bytes = piece.row_bytes();
    core::require(slot < kSlots && part.last <= widths_[slot] && part.n_rows * row_bytes <= bytes.size(),
                  "a rank's part of a slot is of another model");
    for (size_t row = part.first_row; row < part.first_row + part.n_rows; ++row) {
      float* x = slots_[slot] + row * widths_[slot] + part.first;
      if (!piece.in_eight_bits) std::memcpy(x, bytes.data(), row_bytes);
      for (size_t group = 0; piece.in_eight_bits && group * sizeof(EightBits) < row_bytes; ++group) {
        EightBits bits{};
        std::memcpy(&bits, &bytes[group * sizeof(bits)], sizeof(bits));
        from_eight_bits(bits, std::span<float, kEightBitsGroup>(x + group * kEightBitsGroup, kEightBitsGroup));
      }
      bytes = bytes.subspan(row_bytes);
    }
  }
}

uint64_t ranked_bytes(const core::ModelConfig& config, size_t n_ranks, size_t rows, size_t logit_rows, bool in_blocks) {
  const uint64_t floats = exchanged_bytes(config, n_ranks, rows, logit_rows);
  if (!in_blocks || n_ranks == 1) return floats;
  constexpr size_t kSaved = kEightBitsGroup * sizeof(float) - sizeof(EightBits);
  const auto saved = [](Share own) {
    const size_t first = (own.first + kEightBitsGroup - 1) / kEightBitsGroup;
    return std::max(first, own.last / kEightBitsGroup) - first;
  };
  const auto each_head = static_cast<size_t>(config.query_dim() / config.n_kv_heads);
  const auto expert_dim = static_cast<size_t>(config.expert_dim);
  uint64_t groups = 0;
  for (size_t rank = 0; rank < n_ranks; ++rank) {
    const Share heads = share_of(static_cast<size_t>(config.n_kv_heads), rank, n_ranks);
    const Share gate = rows_of_rank(static_cast<size_t>(config.hidden_dim), rank, n_ranks);
    const Share expert = rows_of_rank(expert_dim, rank, n_ranks);
    for (int64_t l = 0; l < config.n_layers; ++l) {
      uint64_t of_row = saved({heads.first * each_head, heads.last * each_head});
      if (!config.has_experts(l)) of_row += saved(gate);
      for (size_t e = 0; config.has_experts(l) && e < static_cast<size_t>(config.experts_per_token); ++e) {
        of_row += saved({e * expert_dim + expert.first, e * expert_dim + expert.last});
      }
      groups += of_row * (l + 1 < config.n_layers ? rows : logit_rows);
    }
  }
  return floats - groups * kSaved * (n_ranks - 1);
}

}  // namespace folio::infer
