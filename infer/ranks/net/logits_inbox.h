// Logits on their way from the last stage of a pipeline to rank 0. They come in the order of the steps, whichever model
// these are of; each model's are asked for in their order, and some never.
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
  /// From the rank `from`.
  LogitsInbox(Peers& peers, size_t from) : peers_(peers), from_(from) {}

  /// A step of the model was told, at whose end come `n` numbers.
  [[nodiscard]] Ticket expect(uint32_t model, size_t n);
  /// Waits for the step's, and forgets those of the model's earlier steps. Valid until the next one is waited for.
  [[nodiscard]] std::span<float> wait(Ticket ticket);
  /// Waits until at most `n` are on their way.
  void receive_all_but(size_t n);

 private:
  struct Logits {
    uint64_t number;  ///< the ticket
    uint32_t model;
    size_t n;
    std::vector<float> values{};
  };

  Peers& peers_;
  size_t from_;
  uint64_t n_expected_ = 0;
  std::deque<Logits> all_;  ///< in the order of the steps
  size_t n_here_ = 0;       ///< the first of them, whose values have come
};

}  // namespace folio::infer
