#include "train/parallel/parts.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "modules/experts.h"
#include "modules/fused/block.h"
#include "train/parallel/backend.h"
#include "train/parallel/context.h"
#include "train/parallel/expert.h"
#include "train/parallel/slices.h"
#include "train/parallel/tensor.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;
using torch::nn::AnyModule;

void require_divisible(const char* what, int64_t n, Axis axis, int64_t parts) {
  if (n % parts == 0) return;
  throw core::UsageError(
      fmt::format("--{}-parallel {}: the model has {} {}, which is no multiple", name_of(axis), parts, n, what));
}

// The parts of a layer's block on this rank.
nn::PartsFactory parts_of_rank(World& world) {
  return [&world](const core::ModelConfig& whole, nn::RopeCache rope, double dropout, int64_t layer) {
    const Mesh& mesh = world.mesh();
    const int64_t t = mesh.size(Axis::Tensor);
    core::ModelConfig c = whole;
    c.n_heads /= t;
    c.n_kv_heads /= t;
    c.hidden_dim = std::max<int64_t>(1, c.hidden_dim / t);  // 1: of no layer, where all have experts
    nn::BlockParts parts = nn::llama_parts(c, rope, dropout, layer);
    if (mesh.size(Axis::Context) > 1) {
      parts.attention = AnyModule(ContextAttention(c, rope, world.along({Axis::Context}), dropout));
    }
    if (mesh.size(Axis::Expert) > 1 && c.has_experts(layer)) {
      parts.ffn = AnyModule(ExpertParallelMixture(c, world.along({Axis::Expert})));
    }
    if (t > 1) {
      Group& tensor = world.along({Axis::Tensor});
      parts.attention = tensor_parallel(parts.attention, tensor);
      if (!c.has_experts(layer)) parts.ffn = tensor_parallel(parts.ffn, tensor);
    }
    return parts;
  };
}

}  // namespace

void require_fits(const TrainConfig& config, const MeshShape& shape, int64_t pipeline_chunks) {
  const core::ModelConfig& c = config.model;
  require_divides(shape, config.batch_size, config.window);
  const int64_t t = shape[Axis::Tensor], e = shape[Axis::Expert], p = shape[Axis::Pipeline];
  require_divisible("heads", c.n_heads, Axis::Tensor, t);
  require_divisible("key/value heads", c.n_kv_heads, Axis::Tensor, t);
  if (c.n_experts == 0 || c.dense_layers > 0) require_divisible("hidden numbers", c.hidden_dim, Axis::Tensor, t);
  const auto refuse = [](const std::string& why) { throw core::UsageError(why); };
  if (config.device == DeviceKind::Cuda) {
    if (p > 1) {
      refuse(
          "--pipeline-parallel: between two ranks NCCL takes messages in one order, and a schedule's have none; take "
          "another mesh with --device cuda");
    }
    if (shape[Axis::Context] > 1)
      refuse("--context-parallel: its attention is for CPUs; take another mesh with --device cuda");
    if (!has_nccl()) {
      refuse(
          "--device cuda: ranks send each other what is on GPUs by NCCL, which this build lacks; take a LibTorch with "
          "CUDA, and nccl.h");
    }
  }
  if (t > 1 && core::info(c.family).qk_norm == core::QkNorm::All) {
    refuse(fmt::format("--tensor-parallel {}: a {} normalizes all heads at once, which no rank has; take another mesh",
                       t, core::info(c.family).name));
  }
  if ((t > 1 || shape[Axis::Context] > 1) && core::info(c.family).sinks) {
    refuse(fmt::format("--{}-parallel: a {} has attention sinks, which no rank's attention knows; take another mesh",
                       name_of(t > 1 ? Axis::Tensor : Axis::Context), core::info(c.family).name));
  }
  if (e > 1 && c.n_experts == 0)
    refuse(fmt::format("--expert-parallel {}: the model has no experts; take --experts, or another mesh", e));
  if (c.n_experts > 0) require_divisible("experts", c.n_experts, Axis::Expert, e);
  if (p == 1 && pipeline_chunks > 1)
    refuse(fmt::format("--pipeline-chunks {}: there is no pipeline; take --pipeline-parallel, too", pipeline_chunks));
  if (c.n_layers % (p * pipeline_chunks) != 0) {
    refuse(fmt::format("--pipeline-parallel {}{}: the model has {} layers, which is no multiple", p,
                       pipeline_chunks > 1 ? fmt::format(" × --pipeline-chunks {}", pipeline_chunks) : "", c.n_layers));
  }
  if (p > 1 && c.n_experts > 0 && config.balance == Balance::Loss && config.balance_rate > 0.0) {
    refuse(
        "--pipeline-parallel: the loss of --balance is of all layers at once, which no rank has; take --balance "
        "bias, or --balance-rate 0");
  }
  if (config.lora_rank > 0 && shape.n_ranks() != shape[Axis::Data])
    refuse("--lora-rank: adapters are trained on data parallel ranks alone");
}

nn::Llama make_chunk(const TrainConfig& config, World& world, nn::LayerRange range, const BlockWrapper& wrap) {
  const Mesh& mesh = world.mesh();
  const core::ModelConfig& c = config.model;
  const bool whole_blocks =
      mesh.size(Axis::Tensor) == 1 && mesh.size(Axis::Context) == 1 && mesh.size(Axis::Expert) == 1;
  const bool fused = config.fused && config.device == DeviceKind::Cpu && nn::can_be_fused(c);
  // A fused block keeps what it derives from its weights, and weights that come and go are to leave nothing.
  auto blocks = whole_blocks && fused && !wrap ? nn::fused_blocks(c, config.dropout, config.recompute)
                                               : nn::llama_blocks(c, config.dropout, parts_of_rank(world));
  if (wrap) {
    blocks = [inner = std::move(blocks), wrap](const core::ModelConfig& model, int64_t layer) {
      return wrap(inner(model, layer), layer);
    };
  }
  nn::Llama chunk(c, config.dropout, std::move(blocks), nullptr, range);
  if (fused) chunk->form = nn::Form::Fused;
  if (config.fused) return chunk;
  chunk->apply([](torch::nn::Module& module) {
    if (auto* attention = module.as<nn::Attention>()) attention->form = nn::Form::Plain;
    if (auto* mixture = module.as<nn::Mixture>()) mixture->form = nn::Form::Plain;
  });
  return chunk;
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
