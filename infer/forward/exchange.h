// The exchange of activations between the ranks of a model. Each rank computes some output rows of every matrix, and
// some heads, and sends the results to the other ranks. No sum is split between ranks, so all values equal those of a
// single machine.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/model_config.h"
#include "infer/forward/slots.h"

namespace folio::infer {

/// The connection between the members (ranks) of a group: between threads, through shared memory or through a network
/// (infer/ranks).
class Transport {
 public:
  /// Called with the bytes that member `from` sent; not called for a member that sent none.
  using Take = std::function<void(size_t from, std::span<const std::byte> bytes)>;

  virtual ~Transport() = default;
  /// Sends the first `n_to_all` bytes to every member and all of `bytes` to member 0. Every member must call this
  /// function; it returns once it has called `take` with the bytes of all other members. `bytes` must stay valid until
  /// the next call returns. Throws core::Error if a member failed, and MachineLost if a member exited or sent nothing
  /// within `timeout`.
  virtual void all_gather(std::span<const std::byte> bytes, size_t n_to_all, const Take& take,
                          std::chrono::seconds timeout) = 0;
};

/// Columns [first, last) of rows [first_row, first_row + n_rows) of a slot.
struct SlotPart {
  Slot slot;
  bool in_eight_bits = false;  ///< true: read only by quantized products, so it may be sent in 8 bits (eight_bits.h)
  size_t first_row = 0;
  size_t n_rows = 0;
  size_t first = 0;
  size_t last = 0;
};

/// Exchanges one rank's activations with the other ranks of its group.
class Exchange {
 public:
  /// Creates the exchange of member `index`. If `in_eight_bits`, parts with SlotPart::in_eight_bits are sent in 8 bits.
  Exchange(std::unique_ptr<Transport> transport, size_t index, size_t n_members, std::chrono::seconds timeout,
           bool in_eight_bits)
      : transport_(std::move(transport)),
        index_(index),
        n_members_(n_members),
        timeout_(timeout),
        in_eight_bits_(in_eight_bits) {}

  /// Starts a step. `slots` are this rank's activations, (rows, width) each.
  void begin(const std::array<float*, kSlots>& slots, const SlotWidths& widths);
  /// Queues a computed part for the other ranks. Logits are sent to rank 0 only, and must be queued last.
  void queue(const SlotPart& part);
  /// Sends the queued parts and receives the other ranks' parts. Every rank must call it. Throws core::Error if a rank
  /// failed, and MachineLost if a rank exited or timed out.
  void all_gather();

  /// Returns the number of payload bytes sent, counted once per receiving rank.
  [[nodiscard]] uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  void append(const SlotPart& part);
  void store(std::span<const std::byte> bytes);

  std::unique_ptr<Transport> transport_;
  size_t index_;
  size_t n_members_;
  std::chrono::seconds timeout_;
  bool in_eight_bits_;
  std::array<float*, kSlots> slots_{};
  SlotWidths widths_{};
  std::vector<std::byte> out_;
  size_t n_to_all_ = 0;              ///< number of leading bytes of out_ for all ranks; the rest are logits, for rank 0
  std::vector<std::byte> last_out_;  ///< the previous message, which other ranks may still read
  uint64_t sent_bytes_ = 0;
};

/// A rank's share [first, last) of a range that is split between ranks, such as heads or rows.
struct Share {
  size_t first;
  size_t last;
};

[[nodiscard]] constexpr Share share_of(size_t n, size_t rank, size_t n_ranks) {
  return {n * rank / n_ranks, n * (rank + 1) / n_ranks};
}

inline constexpr size_t kShardRows = 16;  ///< matrices are split between ranks in tiles of this many output rows

[[nodiscard]] constexpr size_t shard_tiles(size_t n_rows) { return (n_rows + kShardRows - 1) / kShardRows; }

/// Returns the range of a matrix's output rows that `rank` computes; may be empty if there are more ranks than tiles.
[[nodiscard]] constexpr Share rows_of_rank(size_t n_rows, size_t rank, size_t n_ranks) {
  const Share tiles = share_of(shard_tiles(n_rows), rank, n_ranks);
  return {std::min(n_rows, tiles.first * kShardRows), std::min(n_rows, tiles.last * kShardRows)};
}

/// Returns the number of bytes that all ranks send in a step of `rows` rows, of which `logit_rows` have logits.
/// `in_blocks`: true if the inputs of Wo, W2 and ExpertW2 are sent in 8 bits, as ranks in separate processes do for
/// quantized matrices. With experts, this is an upper bound: nothing is sent for a selected expert whose weight rounds
/// to 0.
[[nodiscard]] uint64_t exchanged_bytes(const core::ModelConfig& config, size_t n_ranks, size_t rows, size_t logit_rows,
                                       bool in_blocks = false);

}  // namespace folio::infer
