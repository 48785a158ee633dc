#include "experiments/common/counting_machine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "infer/forward/pass_through.h"

namespace folio::experiments {
namespace {

using infer::Slot;
using infer::WeightId;

class CountingStage final : public infer::PassThroughStage {
 public:
  CountingStage(std::unique_ptr<Stage> inner, const core::StoredModel& model, Work& work)
      : PassThroughStage(std::move(inner)),
        work_(work),
        config_(model.config),
        cached_bytes_(cache_fit().block_bytes / infer::kBlockPositions /
                      static_cast<uint64_t>(layers().last - layers().first)) {
    const auto manifest = core::tensor_manifest(model.config);
    for (size_t i = 0; i < manifest.size(); ++i) {
      if (!infer::needed_by(layers(), manifest[i], model.config)) continue;
      const bool tied = manifest[i].role == core::Role::TokenEmbedding && !weights().has(core::Role::TokenEmbedding);
      const WeightId id = weights()(tied ? core::Role::Output : manifest[i].role, manifest[i].layer);
      sizes_.resize(std::max(sizes_.size(), static_cast<size_t>(id.index) + 1));
      sizes_[static_cast<size_t>(id.index)] = {.elements = static_cast<uint64_t>(manifest[i].elements()),
                                               .bytes = model.tensors[i].bytes.size()};
    }
  }

  void begin(const infer::Step& step) override {
    rows_.assign(step.rows.begin(), step.rows.end());
    n_rows_ = rows_.size();
    n_logit_rows_ = step.n_logit_rows;
    ++work_.steps;
    work_.rows += n_rows_;
    PassThroughStage::begin(step);
  }
  bool replay() override { return false; }  // so that the forward pass says every operation

  void embed(WeightId table) override {
    const Size& size = size_of(table);
    work_.embedding_bytes += n_rows_ * (size.bytes / (size.elements / width(Slot::Residual)));
    PassThroughStage::embed(table);
  }
  void norm(WeightId weight) override {
    work_.weight_bytes += size_of(weight).bytes;
    PassThroughStage::norm(weight);
  }
  void norm_heads(Slot slot, WeightId weight) override {
    work_.weight_bytes += size_of(weight).bytes;
    PassThroughStage::norm_heads(slot, weight);
  }
  void project(Slot in, std::span<const infer::Projection> projections) override {
    for (const infer::Projection& p : projections) {
      count_product(p.weight);
      if (p.bias.exists()) work_.weight_bytes += size_of(p.bias).bytes;
    }
    PassThroughStage::project(in, projections);
  }
  void project_to_residual(Slot in, WeightId weight, WeightId bias, WeightId post_norm) override {
    count_product(weight);
    for (const WeightId vector : {bias, post_norm}) {
      if (vector.exists()) work_.weight_bytes += size_of(vector).bytes;
    }
    PassThroughStage::project_to_residual(in, weight, bias, post_norm);
  }
  void route(const infer::Router& router) override {
    count_product(router.weight);
    for (const WeightId vector : {router.bias, router.selection_bias}) {
      if (vector.exists()) work_.weight_bytes += size_of(vector).bytes;
    }
    PassThroughStage::route(router);
    count_experts();
  }
  void project_experts(const infer::ExpertMatrix& gate, const infer::ExpertMatrix& up) override {
    for (const infer::ExpertMatrix& m : {gate, up}) count_stack(m.weight);
    PassThroughStage::project_experts(gate, up);
  }
  void combine_experts(const infer::ExpertMatrix& down) override {
    count_stack(down.weight);
    PassThroughStage::combine_experts(down);
  }
  void gate_rows(Slot slot, WeightId weight) override {
    count_product(weight);
    PassThroughStage::gate_rows(slot, weight);
  }
  void rotate_and_store(int64_t layer) override {
    work_.cache_bytes_written += n_rows_ * cached_bytes_;
    PassThroughStage::rotate_and_store(layer);
  }
  void attend(int64_t layer, WeightId sinks) override {
    for (const infer::StepRow& row : rows_) {
      const auto positions = static_cast<uint64_t>(std::min(row.position + 1, infer::positions_seen(config_, layer)));
      work_.cache_bytes_read += positions * cached_bytes_;
      work_.attention_multiply_adds += positions * 2 * width(Slot::Query);
    }
    PassThroughStage::attend(layer, sinks);
  }
  void gather() override {
    std::erase_if(rows_, [](const infer::StepRow& row) { return !row.needs_logits; });
    n_rows_ = n_logit_rows_;
    PassThroughStage::gather();
  }

 private:
  struct Size {
    uint64_t elements = 0;
    uint64_t bytes = 0;
  };

  [[nodiscard]] const Size& size_of(WeightId id) const { return sizes_[static_cast<size_t>(id.index)]; }
  // A matrix is read once, and each of its numbers multiplied once for every row.
  void count_product(WeightId weight) {
    work_.weight_bytes += size_of(weight).bytes;
    work_.matrix_multiply_adds += n_rows_ * size_of(weight).elements;
  }

  // The experts that the rows take, and how often all together.
  void count_experts() {
    const size_t n_experts = width(Slot::Routes);
    std::vector<float> routes(n_rows_ * n_experts);
    inner().read(Slot::Routes, routes);
    n_taken_ = 0;
    std::vector<bool> taken(n_experts, false);
    for (size_t i = 0; i < routes.size(); ++i) {
      if (routes[i] == 0.0F) continue;
      taken[i % n_experts] = true;
      ++n_taken_;
    }
    n_experts_taken_ = static_cast<uint64_t>(std::count(taken.begin(), taken.end(), true));
  }
  // Of a matrix for each expert only those are read that a row takes.
  void count_stack(WeightId stack) {
    const auto n_experts = static_cast<uint64_t>(config_.n_experts);
    work_.weight_bytes += n_experts_taken_ * size_of(stack).bytes / n_experts;
    work_.matrix_multiply_adds += n_taken_ * size_of(stack).elements / n_experts;
  }

  Work& work_;
  const core::ModelConfig& config_;
  uint64_t cached_bytes_;    ///< of a position in a layer
  std::vector<Size> sizes_;  ///< by WeightId
  std::vector<infer::StepRow> rows_;
  uint64_t n_rows_ = 0;
  uint64_t n_logit_rows_ = 0;
  uint64_t n_taken_ = 0;  ///< experts by rows
  uint64_t n_experts_taken_ = 0;
};

}  // namespace

std::unique_ptr<infer::Stage> CountingMachine::load(const core::StoredModel& model, const infer::Shard& shard,
                                                    infer::CacheType cache_type) {
  return std::make_unique<CountingStage>(inner_.load(model, shard, cache_type), model, work);
}

}  // namespace folio::experiments
