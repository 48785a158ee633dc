// Receives the logits that the last stage of a pipeline sends to rank 0. Logits of all models arrive in the order of
// their steps. Within a model, logits must be read in this order, but may be skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "infer/forward/machine.h"
#include "infer/ranks/net/peers.h"

namespace folio::infer {

class LogitsInbox {
 public:
  /// Creates an inbox for logits from rank `from`. `peers` must outlive it.
  LogitsInbox(Peers& peers, size_t from) : peers_(peers), from_(from) {}

  /// Registers a step of model `model`, with `n` logits (rows times vocab_size). Returns the ticket for wait().
  [[nodiscard]] Ticket expect(uint32_t model, size_t n);
  /// Waits for a step's logits. They are valid until the next wait(). Discards logits of the model's earlier steps.
  [[nodiscard]] std::span<float> wait(Ticket ticket);
  /// Receives logits until at most `n` registered steps are left whose logits have not arrived.
  void receive_all_but(size_t n);

 private:
  struct Logits {
    uint64_t number;  ///< the step's ticket as a number
    uint32_t model;
    size_t n;
    std::vector<float> values{};
  };

  Peers& peers_;
  size_t from_;
  uint64_t n_expected_ = 0;
  std::deque<Logits> all_;  ///< logits of steps that were registered and not read yet, in the order of steps
  size_t n_here_ = 0;       ///< number of steps, from the front of all_, whose logits have arrived
};

}  // namespace folio::infer
