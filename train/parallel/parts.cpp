#include "train/parallel/parts.h"

#include <utility>

#include "core/error.h"
#include "train/parallel/context.h"
#include "train/parallel/expert.h"
#include "train/parallel/sharded.h"
#include "train/parallel/tensor.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;
using torch::nn::AnyModule;

class RankParts : public fused::FusedParts {
 public:
  RankParts(const TrainConfig& config, World& world, fused::Fusion fusion, std::shared_ptr<const nn::Linears> linears,
            bool shards)
      : fused::FusedParts({.dropout = config.dropout, .written_out = !config.fused, .linears = std::move(linears)},
                          fusion),
        world_(world),
        shards_(shards) {}

  [[nodiscard]] AnyModule attention(const core::ModelConfig& c, nn::RopeCache rope, int64_t layer) const override {
    core::ModelConfig own = c;
    own.n_heads /= size(Axis::Tensor);
    own.n_kv_heads /= size(Axis::Tensor);
    AnyModule attention =
        size(Axis::Context) > 1
            ? AnyModule(ContextAttention(own, std::move(rope), world_.along({Axis::Context}), options().dropout))
            : fused::FusedParts::attention(own, std::move(rope), layer);
    return tensor_parallel(std::move(attention), world_.along({Axis::Tensor}));
  }

  [[nodiscard]] AnyModule feed_forward(const core::ModelConfig& c, int64_t layer) const override {
    if (c.has_experts(layer)) {
      if (size(Axis::Expert) == 1) return fused::FusedParts::feed_forward(c, layer);
      return AnyModule(ExpertParallelMixture(c, world_.along({Axis::Expert}), expert_products(c)));
    }
    core::ModelConfig own = c;
    own.hidden_dim /= size(Axis::Tensor);
    return tensor_parallel(fused::FusedParts::feed_forward(own, layer), world_.along({Axis::Tensor}));
  }

  [[nodiscard]] nn::Block block(const core::ModelConfig& c, nn::RopeCache rope, int64_t layer) const override {
    nn::Block block = fused::FusedParts::block(c, std::move(rope), layer);
    if (!shards_) return block;
    const std::shared_ptr<nn::BlockImpl> sharded = std::make_shared<ShardedBlockImpl>(std::move(block));
    return nn::Block(sharded);
  }

  Tensor loss(const core::ModelConfig& c, const Tensor& x_BTD, nn::RMSNorm norm, nn::Linear head,
              const Tensor& targets_BT) const override {
    if (world_.mesh().shape().n_ranks() == 1 || (targets_BT != kIgnored).any().item<bool>()) {
      return fused::FusedParts::loss(c, x_BTD, std::move(norm), std::move(head), targets_BT);
    }
    // All targets of this rank are ignored. Other ranks wait for this rank's gradients, so return a loss whose
    // gradients are zero.
    Tensor nothing = x_BTD.sum() + norm->weight.sum();
    if (head->weight.defined()) nothing = nothing + head->weight.sum();
    return nothing * 0.0;
  }

 private:
  [[nodiscard]] int64_t size(Axis axis) const { return world_.mesh().size(axis); }

  World& world_;
  bool shards_;
};

}  // namespace

std::shared_ptr<const nn::Parts> rank_parts(const TrainConfig& c, World& world,
                                            std::shared_ptr<const nn::Linears> linears, bool is_trained) {
  const bool fuses = is_trained && c.fused && c.device == DeviceKind::Cpu && fused::can_be_fused(c.model);
  fused::Fusion fusion{.blocks = fuses, .ends = fuses, .recompute = c.recompute};
  const Mesh& mesh = world.mesh();
  const bool shards = c.mesh.zero == 3 && mesh.size(Axis::Data) > 1;
  // Fused blocks do not support divided layers. They also cache stacked weights, which sharded blocks must not keep.
  if (shards || mesh.size(Axis::Tensor) * mesh.size(Axis::Context) * mesh.size(Axis::Expert) > 1) fusion.blocks = false;
  if (is_trained && c.recompute && !fusion.blocks && !shards) {
    throw core::UsageError(fmt::format(
        "--recompute requires fused blocks: blocks like Llama's, on CPUs, without tensor and context ranks; "
        "the family is {}, the device {}, the mesh {}; use --recompute false",
        core::info(c.model.family).name, c.device, to_string(mesh.shape())));
  }
  return std::make_shared<RankParts>(c, world, fusion, std::move(linears), shards);
}

Piece piece_of(const std::string& name, const Tensor& local, const core::ModelConfig& c, const Mesh& mesh) {
  Piece piece{.name = name, .local = local};
  const auto in = [&](const char* part) { return name.find(part) != std::string::npos; };
  // Latent attention: the rows of these matrices are grouped by head.
  const bool heads = in("attention.wq_b.") || in("attention.wk_b.") || in("attention.wv_b.");
  const bool rows =
      heads || in("attention.wq.") || in("attention.wk.") || in("attention.wv.") || in("ffn.w1.") || in("ffn.w3.");
  const bool columns = in("attention.wo.") || in("ffn.w2.");
  if (mesh.size(Axis::Tensor) > 1 && (rows || columns)) {
    piece.cut_dim = rows ? 0 : 1;
  } else if (mesh.size(Axis::Expert) > 1 && in("ffn.experts.")) {
    piece.cut_dim = 0;
    piece.by = Axis::Expert;
  }
  piece.tied_ends = c.tie_embeddings && name == "tok_embeddings.weight";
  return piece;
}

}  // namespace folio::train::parallel
