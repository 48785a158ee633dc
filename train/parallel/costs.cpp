#include "train/parallel/costs.h"

#include <algorithm>
#include <numeric>

#include "core/manifest.h"
#include "train/lora/lora.h"
#include "train/parallel/parts.h"

namespace folio::train::parallel {
namespace {

constexpr double kBytes = 4.0;  // bytes per element (float32)

// Bytes that each of n ranks sends on average in a collective, relative to the size of the tensor.
double all_reduce_factor(double n) { return 2 * (n - 1) / n; }  // ring all-reduce: reduce-scatter, then all-gather
double gather_factor(double n) { return (n - 1) / n; }          // all-gather, reduce-scatter or broadcast
// Reduce to one rank: Gloo runs a ring reduce-scatter, and then the other ranks send their parts to that rank.
double reduce_factor(double n) { return gather_factor(n) * (1 + 1 / n); }

struct Rank {
  const TrainConfig& config;
  const Mesh& mesh;
  const core::ModelConfig& c = config.model;
  double D = size(Axis::Data), C = size(Axis::Context), t = size(Axis::Tensor), e = size(Axis::Expert);
  double microbatches = static_cast<double>(config.accumulation);
  int64_t zero = mesh.size(Axis::Data) == 1 ? 0 : config.mesh.zero;
  int64_t n_stages = mesh.size(Axis::Pipeline), stage = mesh.at(Axis::Pipeline);
  bool is_first = stage == 0, is_last = stage == n_stages - 1;
  bool tied_ends = c.tie_embeddings && n_stages > 1;

  void add_activations(Costs& costs) const;
  void add_weights(Costs& costs) const;
  [[nodiscard]] double optimizer_state(double rows, double columns) const;
  [[nodiscard]] double size(Axis axis) const { return static_cast<double>(mesh.size(axis)); }
  [[nodiscard]] bool has_layer(int64_t layer) const {
    return layer / (c.n_layers / (n_stages * config.mesh.pipeline_chunks)) % n_stages == stage;
  }
};

void add_sent(Costs& costs, const char* what, double bytes) {
  if (bytes > 0) costs.sent.push_back({.what = what, .bytes = bytes});
}

void Rank::add_activations(Costs& costs) const {
  // Tokens per microbatch: `line` in the whole tensor-parallel group, `own` on this rank.
  const double line = static_cast<double>(config.batch_size) / (D * e) * static_cast<double>(config.window) / C;
  const double own = line / t;
  double layers = 0.0, mixtures = 0.0;
  for (int64_t layer = 0; layer < c.n_layers + c.n_tokens_ahead; ++layer) {
    if (!has_layer(layer)) continue;
    layers += 1;
    mixtures += c.has_experts(layer) ? 1 : 0;
  }
  const double sends = static_cast<double>(config.mesh.pipeline_chunks) * 2 - (is_first ? 1 : 0) - (is_last ? 1 : 0);
  const auto dim = static_cast<double>(c.dim);
  const double step = kBytes * microbatches;
  const double forwards = zero == 3 ? 2 : 1;  // sharded blocks recompute activations in the backward pass
  // Attention and dense feed-forward networks have one gather and one scatter per pass.
  add_sent(costs, "tensor: activations",
           step * (2 * layers - mixtures) * 2 * (forwards + 1) * gather_factor(t) * line * dim);
  // A forward pass and a backward pass each send keys and values C - 1 times; a backward pass sends gradients C times.
  add_sent(costs, "context: keys, values",
           step * layers * 2 * (forwards * (C - 1) + (2 * C - 1)) * line * static_cast<double>(c.kv_dim()) / t *
               (C > 1 ? 1 : 0));
  add_sent(costs, "expert: rows",
           step * mixtures * 4 * gather_factor(e) * own * static_cast<double>(c.experts_per_token) * dim);
  add_sent(costs, "pipeline: activations", n_stages > 1 ? step * sends * own * dim : 0.0);
}

// Returns the elements of the optimizer's state for a matrix of a layer.
double Rank::optimizer_state(double rows, double columns) const {
  if (config.optimizer == OptimizerKind::Muon) return rows * columns;
  if (config.optimizer == OptimizerKind::AdamW) return 2 * rows * columns;
  const auto [least, most] = std::minmax(rows, columns);
  return std::min(static_cast<double>(config.rank), least) * (least + 2 * most);  // a projection, two moments
}

void Rank::add_weights(Costs& costs) const {
  double sums = 0.0, tied = 0.0, weights = 0.0;
  const auto adapted = lora::lora_targets(config.lora_targets);
  for (const core::TensorSpec& spec : core::tensor_manifest(c)) {
    const bool is_embedding = spec.role == core::Role::TokenEmbedding;
    const bool here = spec.layer >= 0 ? has_layer(spec.layer)
                      : is_embedding  ? is_first || (tied_ends && is_last)
                                      : is_last;
    if (!here) continue;
    const bool sharded = zero == 3 && spec.layer >= 0;
    Piece piece = piece_of(spec.module_name, {}, c, mesh);
    piece.tied_ends = false;  // without the copy on the other end stage, which `tied` counts
    const auto copies = static_cast<double>(piece.n_copies(mesh));
    const double bytes = kBytes * static_cast<double>(spec.elements()) / (piece.cut_dim >= 0 ? size(piece.by) : 1.0);
    if (config.lora_rank > 0) {  // frozen matrices are no parameters of modules; there are only data ranks
      if (!spec.is_matrix()) costs.parameters += bytes;
      if (std::ranges::find(adapted, spec.role) == adapted.end()) continue;
      for (const int64_t n : spec.shape) {
        const auto rank = static_cast<double>(config.lora_rank), width = static_cast<double>(n);
        costs.parameters += kBytes * rank * width;
        costs.gradients += kBytes * rank * width;
        costs.optimizer += kBytes * optimizer_state(rank, width);
        sums += kBytes * rank * width * all_reduce_factor(D);
      }
      continue;
    }
    const double owned = bytes / D;  // average per data rank if each parameter has one owner
    costs.parameters += sharded ? owned : bytes;
    if (spec.role == core::Role::SelectionBias) continue;  // it has no gradient
    costs.gradients += zero >= 2 ? owned : bytes;
    const auto rows = static_cast<double>(spec.shape[0]), columns = static_cast<double>(spec.elements()) / rows;
    const bool of_block = spec.layer >= 0 && spec.is_matrix();
    costs.optimizer +=
        (of_block ? optimizer_state(rows, columns) / (rows * columns) : 2.0) * (zero >= 1 ? owned : bytes);
    // Sharded blocks send gradients after each microbatch, and weights before its forward and its backward pass.
    // Otherwise, both are sent once per step.
    const double times = sharded ? microbatches : 1.0;
    sums += times * bytes * (zero < 2 ? all_reduce_factor(copies) : all_reduce_factor(copies / D) + reduce_factor(D));
    if (zero > 0) weights += bytes * gather_factor(D) * (sharded ? 2 * microbatches : 1.0);
    if (is_embedding && tied_ends) tied = (zero < 2 ? bytes : owned) * all_reduce_factor(2);
  }
  add_sent(costs, "sums of gradients", sums);
  add_sent(costs, "zero: weights", weights);
  add_sent(costs, "pipeline: tied ends", tied);
}

}  // namespace

double Costs::bytes_sent() const {
  return std::accumulate(sent.begin(), sent.end(), 0.0, [](double all, const Sent& part) { return all + part.bytes; });
}

Costs costs_of(const TrainConfig& config, const Mesh& mesh) {
  const Rank rank{.config = config, .mesh = mesh};
  Costs costs;
  rank.add_activations(costs);
  rank.add_weights(costs);
  return costs;
}

}  // namespace folio::train::parallel
