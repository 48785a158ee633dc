// A stage that hands every call on to another: the base of those that watch, count or change what passes.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "infer/forward/machine.h"

namespace folio::infer {

class PassThroughStage : public Stage {
 public:
  explicit PassThroughStage(std::unique_ptr<Stage> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] LayerRange layers() const override { return inner_->layers(); }
  [[nodiscard]] const StageWeights& weights() const override { return inner_->weights(); }
  [[nodiscard]] size_t width(Slot slot) const override { return inner_->width(slot); }
  [[nodiscard]] size_t steps_in_flight() const override { return inner_->steps_in_flight(); }
  [[nodiscard]] size_t max_rows() const override { return inner_->max_rows(); }
  [[nodiscard]] CacheFit cache_fit() const override { return inner_->cache_fit(); }
  void reserve_cache(int64_t n_blocks) override { inner_->reserve_cache(n_blocks); }
  [[nodiscard]] const LoadReport& load_report() const override { return inner_->load_report(); }
  void load_adapter(int32_t number, std::shared_ptr<const core::Adapter> adapter) override {
    inner_->load_adapter(number, std::move(adapter));
  }
  void unload_adapter(int32_t number) override { inner_->unload_adapter(number); }
  void begin(const Step& step) override { inner_->begin(step); }
  bool replay() override { return inner_->replay(); }
  void embed(WeightId table) override { inner_->embed(table); }
  void norm(WeightId weight) override { inner_->norm(weight); }
  void norm_heads(Slot slot, WeightId weight) override { inner_->norm_heads(slot, weight); }
  void project(Slot in, std::span<const Projection> projections) override { inner_->project(in, projections); }
  void project_to_residual(Slot in, WeightId weight, WeightId bias, WeightId post_norm) override {
    inner_->project_to_residual(in, weight, bias, post_norm);
  }
  void rotate_and_store(int64_t layer) override { inner_->rotate_and_store(layer); }
  void attend(int64_t layer, WeightId sinks) override { inner_->attend(layer, sinks); }
  void activate(Slot gate, Slot up) override { inner_->activate(gate, up); }
  void route(const Router& router) override { inner_->route(router); }
  void project_experts(const ExpertMatrix& gate, const ExpertMatrix& up) override { inner_->project_experts(gate, up); }
  void combine_experts(const ExpertMatrix& down) override { inner_->combine_experts(down); }
  void gate_rows(Slot slot, WeightId weight) override { inner_->gate_rows(slot, weight); }
  void gather() override { inner_->gather(); }
  void finish_logits() override { inner_->finish_logits(); }
  void draw() override { inner_->draw(); }
  void end() override { inner_->end(); }
  Ticket fetch_logits() override { return inner_->fetch_logits(); }
  std::span<float> wait(Ticket ticket) override { return inner_->wait(ticket); }
  [[nodiscard]] bool draws() const override { return inner_->draws(); }
  Ticket fetch_tokens() override { return inner_->fetch_tokens(); }
  std::span<const int32_t> wait_tokens(Ticket ticket) override { return inner_->wait_tokens(ticket); }
  void read(Slot slot, std::span<float> values) override { inner_->read(slot, values); }
  void write(Slot slot, std::span<const float> values) override { inner_->write(slot, values); }

 protected:
  [[nodiscard]] Stage& inner() { return *inner_; }
  /// As forward() takes stages.
  [[nodiscard]] std::span<const std::unique_ptr<Stage>> alone() const { return {&inner_, 1}; }

 private:
  std::unique_ptr<Stage> inner_;
};

}  // namespace folio::infer
