// A stage that forwards all calls to an inner stage: the base class of stages that count, time or change operations.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "infer/forward/machine.h"

namespace folio::infer {

class PassThroughStage : public Stage {
 public:
  explicit PassThroughStage(std::unique_ptr<Stage> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] const StageInfo& info() const override { return inner_->info(); }
  [[nodiscard]] bool begin(const Step& step) override { return inner_->begin(step); }
  void issue(const Operation& operation) override { inner_->issue(operation); }
  void end() override { inner_->end(); }
  [[nodiscard]] CacheFit cache_fit() const override { return inner_->cache_fit(); }
  void reserve_cache(int64_t n_blocks) override { inner_->reserve_cache(n_blocks); }
  void load_adapter(int32_t number, const core::Adapter& adapter) override { inner_->load_adapter(number, adapter); }
  void unload_adapter(int32_t number) override { inner_->unload_adapter(number); }
  Ticket fetch_logits() override { return inner_->fetch_logits(); }
  std::span<float> wait(Ticket ticket) override { return inner_->wait(ticket); }
  Ticket fetch_tokens() override { return inner_->fetch_tokens(); }
  std::span<const int32_t> wait_tokens(Ticket ticket) override { return inner_->wait_tokens(ticket); }
  void read(Slot slot, std::span<float> values) override { inner_->read(slot, values); }
  void write(Slot slot, std::span<const float> values) override { inner_->write(slot, values); }

 protected:
  [[nodiscard]] Stage& inner() const { return *inner_; }
  /// Returns the inner stage as a span of one stage, as forward() requires.
  [[nodiscard]] std::span<const std::unique_ptr<Stage>> alone() const { return {&inner_, 1}; }

 private:
  std::unique_ptr<Stage> inner_;
};

}  // namespace folio::infer
