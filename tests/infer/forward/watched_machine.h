// A machine that forwards all calls to another machine and records their order.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "infer/forward/pass_through.h"

namespace folio::infer::test {

/// A stage that appends "b" to `events` when a step begins, and "w" when the step's tokens are waited for.
class WatchedStage final : public PassThroughStage {
 public:
  WatchedStage(std::unique_ptr<Stage> stage, std::string& events)
      : PassThroughStage(std::move(stage)), events_(events) {}

  bool begin(const Step& step) override {
    events_ += 'b';
    return PassThroughStage::begin(step);
  }
  std::span<const int32_t> wait_tokens(Ticket ticket) override {
    events_ += 'w';
    return PassThroughStage::wait_tokens(ticket);
  }

 private:
  std::string& events_;
};

class WatchedMachine final : public Machine {
 public:
  WatchedMachine(std::unique_ptr<Machine> inner, std::string& events) : inner_(std::move(inner)), events_(events) {}
  [[nodiscard]] std::string describe() const override { return inner_->describe(); }
  [[nodiscard]] std::unique_ptr<Stage> load(const core::StoredModel& model, const Shard& shard,
                                            CacheType cache_type) override {
    auto stage = std::make_unique<WatchedStage>(inner_->load(model, shard, cache_type), events_);
    draws = stage->info().draws;
    return stage;
  }
  bool draws = false;  ///< true if the last loaded stage draws tokens itself

 private:
  std::unique_ptr<Machine> inner_;
  std::string& events_;
};

}  // namespace folio::infer::test
