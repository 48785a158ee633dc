// An exchange between processes: what a rank gives is put down, and told to the others in a round when they meet.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "infer/forward/exchange.h"
#include "infer/ranks/rounds.h"

namespace folio::infer {

/// Of one rank, which `give` and `begin` are called for.
class RankedExchange final : public Exchange {
 public:
  /// Among `n_members` ranks, which meet in these rounds alone.
  RankedExchange(std::unique_ptr<Rounds> rounds, size_t n_members, std::chrono::seconds timeout)
      : rounds_(std::move(rounds)), n_members_(n_members), timeout_(timeout) {}

  void begin(size_t rank, const std::array<float*, kSlots>& slots, const SlotWidths& widths) override;
  void give(size_t rank, const SlotPart& part) override;
  /// Throws MachineLost as Rounds does.
  void meet() override;

  /// From now on the slot is an input of a product with a matrix in blocks, and of nothing else: see eight_bits.h. Or
  /// it isn't.
  void send_in_eight_bits(Slot slot, bool so) { in_eight_bits_[static_cast<size_t>(slot)] = so; }

  /// What this rank has given of slots, times those who get it.
  [[nodiscard]] uint64_t given_bytes() const { return given_bytes_; }

 private:
  void put(const SlotPart& part, bool in_eight_bits);
  void take(std::span<const std::byte> bytes);

  std::unique_ptr<Rounds> rounds_;
  size_t n_members_;
  std::chrono::seconds timeout_;
  std::array<float*, kSlots> slots_{};
  SlotWidths widths_{};
  std::array<bool, kSlots> in_eight_bits_{};
  std::vector<std::byte> to_all_;
  std::vector<std::byte> to_first_;  ///< the logits
  uint64_t given_bytes_ = 0;
};

/// Bytes that n_ranks ranks of a model give each other in a step of so many rows, of which some need logits:
/// exchanged_bytes() of shards, and with `in_blocks`, where all matrices of layers are in blocks, less for the inputs
/// of Wo and W2 in 8 bits, of each rank's columns the whole groups of 32.
[[nodiscard]] uint64_t ranked_bytes(const core::ModelConfig& config, size_t n_ranks, size_t rows, size_t logit_rows,
                                    bool in_blocks);

}  // namespace folio::infer
