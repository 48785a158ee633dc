// An exchange between threads of one process: a rank writes its part into the others' slots, and all wait for each
// other at the meetings.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "infer/forward/exchange.h"

namespace folio::infer {

class LocalExchange final : public Exchange {
 public:
  explicit LocalExchange(size_t n_ranks) : places_(n_ranks), received_(n_ranks) {}

  void begin(size_t rank, const std::array<float*, kSlots>& slots, const SlotWidths& widths) override;
  void give(size_t rank, const SlotPart& part) override;
  /// Spins for a moment, then sleeps.
  void meet() override;

  /// A rank failed: who waits in meet(), or comes there, gets an error, until reset(), when no rank runs.
  void break_off();
  void reset();

  /// That all ranks have got from others, since the beginning.
  [[nodiscard]] uint64_t bytes() const;

 private:
  struct alignas(64) Received {
    uint64_t bytes = 0;  ///< given by the rank, times its receivers
  };

  std::vector<std::array<float*, kSlots>> places_;
  SlotWidths widths_{};
  std::vector<Received> received_;
  std::atomic<uint32_t> n_here_{0};
  std::atomic<uint32_t> n_meetings_{0};
  std::atomic<bool> broken_{false};
};

}  // namespace folio::infer
