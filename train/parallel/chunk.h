// A chunk: consecutive layers of a model, which form one stage of a pipeline. Parameters have the same names as in the
// whole model. The first chunk also has the embeddings; the last one also has the final norm and the head.
#pragma once

#include <memory>
#include <vector>

#include "modules/llama.h"

namespace folio::train::parallel {

class ChunkImpl : public torch::nn::Module {
 public:
  /// Creates layers first .. end - 1 with uninitialized weights. With tied embeddings, the last chunk has its own
  /// copy of tok_embeddings.
  ChunkImpl(const core::ModelConfig& config, std::shared_ptr<const nn::Parts> parts, int64_t first, int64_t end);

  /// Runs the layers on token ids [B, T] (first chunk) or on the previous chunk's output [B, T, dim].
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& starts = {});
  /// Returns the mean cross-entropy of `targets` [B, T] in nats, except ignored ones, for the output x of forward().
  /// Last chunk only.
  torch::Tensor loss(const torch::Tensor& x, const torch::Tensor& targets);

  [[nodiscard]] bool is_first() const { return first_ == 0; }
  [[nodiscard]] bool is_last() const { return end_ == config_.n_layers; }

 private:
  core::ModelConfig config_;
  std::shared_ptr<const nn::Parts> parts_;
  int64_t first_, end_;
  nn::Embedding tok_embeddings_{nullptr};
  std::vector<nn::Block> layers_;
  nn::RMSNorm norm_{nullptr};
  nn::Linear head_{nullptr};
};
TORCH_MODULE(Chunk);

}  // namespace folio::train::parallel
