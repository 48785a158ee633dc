// What a trainer does on several ranks: each has a part of the model (rank_model.h), of its gradients and of its
// optimizer's state (zero.h). Files know nothing of it: what is saved is put together from all ranks, tensor by tensor,
// and what is loaded is cut.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "train/parallel/rank_model.h"
#include "train/parallel/sharded.h"
#include "train/parallel/zero.h"
#include "train/step/optimizer.h"

namespace folio::train::parallel {

struct RankOptions {
  int64_t zero = 0;             ///< the stage, 0 to 3
  int64_t pipeline_chunks = 1;  ///< ranges of layers of a pipeline's rank
  torch::Device device = torch::kCPU;
};

class RankTraining {
 public:
  /// Throws core::UsageError where the mesh does not fit the model, as require_fits() does (parts.h).
  RankTraining(const TrainConfig& config, World& world, const RankOptions& options,
               torch::ScalarType type = torch::kFloat);

  /// The rank's part of these weights, and with config.ema of their average; an empty one begins as the model.
  void load(const nn::Llama& whole, const nn::Llama& average);

  /// As RankModel::pass(); and then gradients are sums over all ranks.
  double pass(const std::vector<data::Batch>& batches, int64_t step);
  [[nodiscard]] double gradient_norm() { return zero_->gradient_norm(); }
  /// What this rank's optimizer updates.
  [[nodiscard]] Parameters parameters();
  /// After its update, the step-th: of the other ranks' parameters, and of the average.
  void finish_step(int64_t step);
  double mean_loss(const data::BatchOf& batches, uint64_t first, uint64_t n);

  /// Collectives, which all ranks call; on rank 0 the whole model, its average, the gradients as the model's, all of
  /// the optimizer's state. On the other ranks empty.
  [[nodiscard]] nn::Llama whole_model();
  [[nodiscard]] nn::Llama whole_average();
  [[nodiscard]] nn::Llama whole_gradients();
  [[nodiscard]] std::vector<Optimizer::State> whole_state(const Optimizer& optimizer);
  /// The part of a parameter, or of its moments, that this rank has.
  [[nodiscard]] torch::Tensor part_of(const std::string& parameter, const torch::Tensor& whole);

  /// The largest of all ranks' values.
  [[nodiscard]] double largest(double value);

  [[nodiscard]] RankModel& model() { return model_; }
  [[nodiscard]] World& world() { return world_; }
  [[nodiscard]] bool is_first() const { return world_.mesh().rank() == 0; }
  [[nodiscard]] int64_t bytes_sent() const { return world_.bytes_sent() + zero_->bytes_sent(); }

 private:
  BlockWrapper wrapper(const RankOptions& options);
  torch::Tensor gather(const std::string& name, const torch::Tensor& local, bool here,
                       const std::vector<int64_t>& shape);
  nn::Llama put_together(RankModel& from, bool gradients);

  TrainConfig config_;
  World& world_;
  std::map<int64_t, ShardedBlock> sharded_;  ///< the blocks of model_, with zero 3, by their layers
  RankModel model_;
  std::unique_ptr<RankModel> average_;  ///< with config.ema
  std::unique_ptr<Zero> zero_;
  std::map<std::string, size_t> index_;  ///< of a parameter among the pieces
};

}  // namespace folio::train::parallel
