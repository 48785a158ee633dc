// A part of a model: some of its layers, with the names of the whole model's parameters. What begins with layer 0 has
// the embeddings, too; what ends with the last layer has the final norm and the head.
#pragma once

#include <memory>
#include <vector>

#include "modules/llama.h"

namespace folio::train::parallel {

class ChunkImpl : public torch::nn::Module {
 public:
  /// Layers first .. end - 1, with unset values. A tied head without the embeddings has tok_embeddings of its own.
  ChunkImpl(const core::ModelConfig& config, std::shared_ptr<const nn::Parts> parts, int64_t first, int64_t end);

  /// Token ids [B, T] in the first chunk, in others what the chunk before made, [B, T, dim], through the layers.
  torch::Tensor forward(const torch::Tensor& input, const torch::Tensor& starts = {});
  /// Of what comes out of the last layer: see nn::Parts.
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
