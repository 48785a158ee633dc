#include "train/parallel/parts.h"

#include <memory>
#include <utility>

#include "core/error.h"
#include "train/parallel/context.h"
#include "train/parallel/expert.h"
#include "train/parallel/tensor.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;
using torch::nn::AnyModule;

// What a rank has of each layer, and what stands in a block's place.
class RankParts : public fused::FusedParts {
 public:
  RankParts(const TrainConfig& config, World& world, fused::Fusion fusion, std::shared_ptr<const nn::Linears> linears,
            BlockWrapper wrap)
      : fused::FusedParts(config.model,
                          {.dropout = config.dropout, .written_out = !config.fused, .linears = std::move(linears)},
                          fusion),
        world_(world),
        wrap_(std::move(wrap)) {}

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
    return wrap_ ? wrap_(std::move(block), layer) : block;
  }

  Tensor loss(const core::ModelConfig& c, const Tensor& x_BTD, nn::RMSNorm norm, nn::Linear head,
              const Tensor& targets_BT) const override {
    if (world_.mesh().shape().n_ranks() == 1 || (targets_BT != kIgnored).any().item<bool>()) {
      return fused::FusedParts::loss(c, x_BTD, std::move(norm), std::move(head), targets_BT);
    }
    // No target of this rank counts, but others wait for its backward pass, of all its parameters.
    Tensor nothing = x_BTD.sum() + norm->weight.sum();
    if (head->weight.defined()) nothing = nothing + head->weight.sum();
    return nothing * 0.0;
  }

 private:
  [[nodiscard]] int64_t size(Axis axis) const { return world_.mesh().size(axis); }

  World& world_;
  BlockWrapper wrap_;
};

}  // namespace

void require_fits(TrainConfig config, const MeshShape& shape) {
  config.mesh.data = shape[Axis::Data];
  config.mesh.tensor = shape[Axis::Tensor];
  config.mesh.pipeline = shape[Axis::Pipeline];
  config.mesh.context = shape[Axis::Context];
  config.mesh.expert = shape[Axis::Expert];
  validate(config);
  if (config.device == DeviceKind::Cuda && shape.n_ranks() > 1 && !has_nccl()) {
    throw core::UsageError(
        "--device cuda: ranks send each other what is on GPUs by NCCL, which this build lacks; take a LibTorch with "
        "CUDA, and nccl.h");
  }
}

fused::Fusion fusion_of(const TrainConfig& c) {
  fused::Fusion fusion{};
  if (c.fused) fusion = fused::fusion_of(c.model, c.recompute);
  if (c.device != DeviceKind::Cpu) fusion.blocks = fusion.ends = false;
  return fusion;
}

std::shared_ptr<const nn::Parts> rank_parts(const TrainConfig& config, World& world, fused::Fusion fusion,
                                            std::shared_ptr<const nn::Linears> linears, BlockWrapper wrap) {
  const Mesh& mesh = world.mesh();
  // A fused block keeps what it derives from its weights, and weights that come and go are to leave nothing.
  fusion.blocks = fusion.blocks && !wrap && mesh.size(Axis::Tensor) == 1 && mesh.size(Axis::Context) == 1 &&
                  mesh.size(Axis::Expert) == 1;
  return std::make_shared<RankParts>(config, world, fusion, std::move(linears), std::move(wrap));
}

Piece piece_of(const std::string& name, const Tensor& local, const core::ModelConfig& c, const Mesh& mesh) {
  Piece piece{.name = name, .local = local};
  const auto in = [&](const char* part) { return name.find(part) != std::string::npos; };
  const bool rows = in("attention.wq.") || in("attention.wk.") || in("attention.wv.") || in("ffn.w1.") || in("ffn.w3.");
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
