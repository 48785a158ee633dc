#include "train/parallel/costs.h"

#include "core/manifest.h"

namespace folio::train::parallel {
namespace {

using core::Role;
using core::TensorSpec;

constexpr double kBytes = 4.0;  // of a number

// What each of n ranks sends, as a part of a tensor that all have, or of one that they have together.
double of_sum(double n) { return 2 * (n - 1) / n; }  // all get it: each part goes round to be summed, and once more
double of_one_way(double n) { return (n - 1) / n; }  // a gather, a scattered sum, or one rank's tensor to all
// To one rank: Gloo sums by a ring, and then each of the others sends it a part. On average over the ranks.
double of_sum_at_one(double n) { return of_one_way(n) * (1 + 1 / n); }

// Of the ranges of layers of a rank, how many have the layer; and whether one is at an end of the model.
struct Ranges {
  int64_t n_stages, n_chunks, layers, place;

  [[nodiscard]] bool has_layer(int64_t layer) const {
    return layer / (layers / (n_stages * n_chunks)) % n_stages == place;
  }
  [[nodiscard]] bool is_first() const { return place == 0; }
  [[nodiscard]] bool is_last() const { return place == n_stages - 1; }
};

struct Held {
  double numbers;   // of the rank
  double n_copies;  // ranks that have the same
};

// Of a tensor of the manifest.
Held held_of(const TensorSpec& spec, const core::ModelConfig& c, const Mesh& mesh, const Ranges& ranges) {
  const bool tied = c.tie_embeddings && ranges.n_stages > 1;
  const bool here = spec.layer >= 0                     ? ranges.has_layer(spec.layer)
                    : spec.role == Role::TokenEmbedding ? ranges.is_first() || (tied && ranges.is_last())
                                                        : ranges.is_last();
  if (!here) return {.numbers = 0.0, .n_copies = 1.0};
  Axis cut = Axis::Pipeline;  // by none that has copies
  switch (spec.role) {
    case Role::Wq:
    case Role::Wk:
    case Role::Wv:
    case Role::Bq:
    case Role::Bk:
    case Role::Bv:
    case Role::Wo:
      cut = Axis::Tensor;
      break;
    case Role::W1:
    case Role::W3:
    case Role::W2:
      if (!c.has_experts(spec.layer)) cut = Axis::Tensor;
      break;
    case Role::ExpertW1:
    case Role::ExpertW3:
    case Role::ExpertW2:
      cut = Axis::Expert;
      break;
    default:
      break;
  }
  Held held{.numbers = static_cast<double>(spec.elements()), .n_copies = 1.0};
  for (const Axis axis : {Axis::Data, Axis::Expert, Axis::Context, Axis::Tensor}) {
    const auto n = static_cast<double>(mesh.size(axis));
    if (axis == cut) {
      held.numbers /= n;
    } else {
      held.n_copies *= n;
    }
  }
  return held;
}

bool in_muon(const TensorSpec& spec, const TrainConfig& config) {
  return config.optimizer == OptimizerKind::Muon && spec.layer >= 0 && spec.shape.size() > 1;
}

}  // namespace

double Costs::bytes_sent() const {
  double all = 0.0;
  for (const Sent& part : sent) all += part.bytes;
  return all;
}

Costs costs_of(const TrainConfig& config, const Mesh& mesh, int64_t pipeline_chunks, int64_t zero) {
  const core::ModelConfig& c = config.model;
  const auto size = [&](Axis axis) { return static_cast<double>(mesh.size(axis)); };
  const double D = size(Axis::Data), C = size(Axis::Context), t = size(Axis::Tensor), e = size(Axis::Expert);
  const Ranges ranges{.n_stages = mesh.size(Axis::Pipeline),
                      .n_chunks = pipeline_chunks,
                      .layers = c.n_layers,
                      .place = mesh.at(Axis::Pipeline)};
  Costs costs;

  if (mesh.size(Axis::Data) == 1) zero = 0;
  const auto microbatches = static_cast<double>(config.accumulation);

  double sums = 0.0, tied = 0.0, weights = 0.0;
  for (const TensorSpec& spec : core::tensor_manifest(c)) {
    const Held held = held_of(spec, c, mesh, ranges);
    const bool sharded = zero == 3 && spec.layer >= 0;
    const double bytes = kBytes * held.numbers, owned = bytes / D;  // where the ranks along data share them, on average
    costs.parameters += sharded ? owned : bytes;
    if (spec.role == Role::SelectionBias) continue;  // has no gradient
    costs.gradients += zero >= 2 ? owned : bytes;
    costs.optimizer += (in_muon(spec, config) ? 1.0 : 2.0) * (zero >= 1 ? owned : bytes);
    // What is sharded sends its gradients after each microbatch, and its weights before each of its passes. Else both
    // are sent once a step.
    const double times = sharded ? microbatches : 1.0;
    sums += times * bytes * (zero < 2 ? of_sum(held.n_copies) : of_sum(held.n_copies / D) + of_sum_at_one(D));
    if (zero > 0) weights += bytes * of_one_way(D) * (sharded ? 2 * microbatches : 1.0);
    if (spec.role == Role::TokenEmbedding && c.tie_embeddings && ranges.n_stages > 1)
      tied = (zero < 2 ? bytes : owned) * of_sum(2);
  }

  // Of a microbatch, the numbers of an activation of all positions of a tensor line, and of those of this rank.
  const double rows = static_cast<double>(config.batch_size) / (D * e);
  const double line = rows * static_cast<double>(config.window) / C;
  const double own = line / t;
  double layers = 0.0, mixtures = 0.0;
  for (int64_t layer = 0; layer < c.n_layers; ++layer) {
    if (!ranges.has_layer(layer)) continue;
    layers += 1;
    mixtures += c.has_experts(layer) ? 1 : 0;
  }
  const double sends =
      static_cast<double>(pipeline_chunks) * 2 - (ranges.is_first() ? 1 : 0) - (ranges.is_last() ? 1 : 0);
  const auto dim = static_cast<double>(c.dim);
  const double step = kBytes * microbatches;
  const auto add = [&](const char* what, double bytes) {
    if (bytes > 0) costs.sent.push_back({.what = what, .bytes = bytes});
  };
  const double forwards = zero == 3 ? 2 : 1;  // sharded blocks compute again in the backward pass
  // Attention, and a feed-forward network that is no mixture, gather and scatter in each pass.
  add("tensor: activations", step * (2 * layers - mixtures) * 2 * (forwards + 1) * of_one_way(t) * line * dim);
  // Keys and values go round forward; backward they do again, and their gradients a step further.
  add("context: keys, values", step * layers * 2 * (forwards * (C - 1) + (2 * C - 1)) * line *
                                   static_cast<double>(c.kv_dim()) / t * (C > 1 ? 1 : 0));
  add("expert: rows", step * mixtures * 4 * of_one_way(e) * own * static_cast<double>(c.experts_per_token) * dim);
  add("pipeline: activations", ranges.n_stages > 1 ? step * sends * own * dim : 0.0);
  add("sums of gradients", sums);
  add("zero: weights", weights);
  add("pipeline: tied ends", tied);
  return costs;
}

}  // namespace folio::train::parallel
