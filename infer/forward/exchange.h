// How the ranks of a model give each other their parts of the activations. A rank computes some output rows of each
// matrix, and some heads; its results go to all others unchanged, so no sum crosses a border between ranks, and each
// value is the one that a single machine computes.
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

/// How the members of a group reach each other: as threads (infer/ranks/local.h), through shared memory, or by messages
/// (infer/ranks/net/transport.h).
class Transport {
 public:
  /// Receives what the member `from` gave, unless that is nothing.
  using Take = std::function<void(size_t from, std::span<const std::byte> bytes)>;

  virtual ~Transport() = default;
  /// Every member calls it. The first one gets the bytes of all others, and these the first `n_to_all` of each. Returns
  /// when this member has them. Threads may read the bytes until the next call returns. Throws core::Error if a member
  /// failed, and MachineLost if it is gone or has not come within the timeout.
  virtual void all_gather(std::span<const std::byte> bytes, size_t n_to_all, const Take& take,
                          std::chrono::seconds timeout) = 0;
};

/// Columns [first, last) of some rows of a slot.
struct SlotPart {
  Slot slot;
  bool in_eight_bits = false;  ///< only products with matrices in blocks read it: see eight_bits.h
  size_t first_row = 0;
  size_t n_rows = 0;
  size_t first = 0;
  size_t last = 0;
};

/// One rank's side of the exchanges.
class Exchange {
 public:
  /// The rank is member `index` of the transport's n_members. `in_eight_bits`: parts that may go so do.
  Exchange(std::unique_ptr<Transport> transport, size_t index, size_t n_members, std::chrono::seconds timeout,
           bool in_eight_bits)
      : transport_(std::move(transport)),
        index_(index),
        n_members_(n_members),
        timeout_(timeout),
        in_eight_bits_(in_eight_bits) {}

  /// A step begins; `slots` are its activations on this rank, (rows, width) each.
  void begin(const std::array<float*, kSlots>& slots, const SlotWidths& widths);
  /// Gives the others a part that the rank has computed; Logits only to the first rank, as the last part.
  void give(const SlotPart& part);
  /// Every rank calls it. Returns when the parts that the others gave are in this rank's slots. Throws as
  /// Transport::all_gather does.
  void meet();

  /// Returns the bytes of slots that this rank has given, times the ranks that got them.
  [[nodiscard]] uint64_t given_bytes() const { return given_bytes_; }

 private:
  void put(const SlotPart& part);
  void take(std::span<const std::byte> bytes);

  std::unique_ptr<Transport> transport_;
  size_t index_;
  size_t n_members_;
  std::chrono::seconds timeout_;
  bool in_eight_bits_;
  std::array<float*, kSlots> slots_{};
  SlotWidths widths_{};
  std::vector<std::byte> out_;
  size_t n_to_all_ = 0;              ///< bytes of it, before the logits
  std::vector<std::byte> last_out_;  ///< others may still read it
  uint64_t given_bytes_ = 0;
};

/// The things [first, last) that one rank of several has.
struct Share {
  size_t first;
  size_t last;
};

[[nodiscard]] constexpr Share share_of(size_t n, size_t rank, size_t n_ranks) {
  return {n * rank / n_ranks, n * (rank + 1) / n_ranks};
}

inline constexpr size_t kShardRows = 16;  ///< a matrix is split between tiles of this many output rows

[[nodiscard]] constexpr size_t shard_tiles(size_t n_rows) { return (n_rows + kShardRows - 1) / kShardRows; }

/// The output rows of a matrix that a rank has; empty where there are more ranks than tiles.
[[nodiscard]] constexpr Share rows_of_rank(size_t n_rows, size_t rank, size_t n_ranks) {
  const Share tiles = share_of(shard_tiles(n_rows), rank, n_ranks);
  return {std::min(n_rows, tiles.first * kShardRows), std::min(n_rows, tiles.last * kShardRows)};
}

/// Returns the bytes that the ranks of a model give each other in a step of `rows` rows, of which `logit_rows` need
/// logits: the embedding's rows, of each layer queries, keys, values, heads, the residual, and of each feed-forward
/// network its middle and the residual, to all others; of experts also the routes (unless one is rounded to 0); and the
/// logits to the first. From the last layer's heads on these are of the logit_rows. With `in_blocks`, where processes
/// have all matrices of layers in blocks, the inputs of Wo and W2 go in 8 bits: of each rank's columns the whole groups
/// of 32.
[[nodiscard]] uint64_t exchanged_bytes(const core::ModelConfig& config, size_t n_ranks, size_t rows, size_t logit_rows,
                                       bool in_blocks = false);

}  // namespace folio::infer
