#include "train/parallel/rank_model.h"

#include <torch/utils.h>

#include <cmath>
#include <utility>

#include "train/parallel/parts.h"
#include "train/parallel/pipeline.h"
#include "train/parallel/schedule.h"
#include "train/parallel/slices.h"
#include "train/step/autocast.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

// Ranks with tokens of their own.
const std::vector<Axis> kTokenAxes = {Axis::Data, Axis::Expert, Axis::Context, Axis::Tensor};

}  // namespace

// A microbatch of this rank.
struct RankModel::Part {
  TensorBatch tokens;
  double divisor;  ///< of the mean over the rank's own targets, in the mean of the step; ∞: it has none
  double loss = 0.0;
};

RankModel::RankModel(const TrainConfig& config, World& world, int64_t pipeline_chunks, const BlockWrapper& wrap)
    : config_(config), world_(world) {
  const Mesh& mesh = world.mesh();
  require_fits(config, mesh.shape(), pipeline_chunks);
  const int64_t n_stages = mesh.size(Axis::Pipeline);
  const int64_t layers = config.model.n_layers / (n_stages * pipeline_chunks);
  for (int64_t chunk = 0; chunk < pipeline_chunks; ++chunk) {
    const int64_t first = (chunk * n_stages + mesh.at(Axis::Pipeline)) * layers;
    chunks_.push_back(make_chunk(config, world, {.first = first, .last = first + layers}, wrap));
    chunks_.back()->train();
    for (const auto& parameter : chunks_.back()->named_parameters())
      pieces_.push_back(piece_of(parameter.key(), parameter.value(), config.model, mesh));
    for (nn::Mixture& mixture : nn::mixtures_of(*chunks_.back())) mixtures_.push_back(std::move(mixture));
  }
}

void RankModel::load(const nn::Llama& whole) {
  const torch::NoGradGuard no_grad;
  const auto parameters = whole->named_parameters();
  for (Piece& piece : pieces_) piece.local.copy_(part_of(parameters[piece.name], piece, world_.mesh()));
}

std::vector<RankModel::Part> RankModel::cut(const std::vector<data::Batch>& batches) const {
  double n_counted = 0.0;
  for (const data::Batch& batch : batches) n_counted += static_cast<double>(batch.n_counted());
  std::vector<Part> parts;
  for (const data::Batch& batch : batches) {
    Part part{.tokens = slice_of(to_tensors(batch, pieces_.front().local.device()), world_.mesh()), .divisor = 1.0};
    part.divisor = n_counted / (part.tokens.targets_BT != nn::LlamaImpl::kIgnored).sum().item<double>();
    parts.push_back(std::move(part));
  }
  return parts;
}

Tensor RankModel::balance_loss() {
  // f is of all ranks' rows; each rank adds its own rows' part of the mean scores p.
  std::vector<Tensor> chosen, scores;
  int64_t own = 0;
  for (nn::Mixture& mixture : mixtures_) {
    const auto load = mixture->take_load();
    chosen.push_back(load.chosen);
    scores.push_back(load.mean_scores);
    own = load.n_rows;
  }
  const Tensor counts_LE =
      torch::cat({torch::stack(chosen), torch::full({1, chosen.front().numel()}, own, chosen.front().options())});
  world_.along(kTokenAxes).sum(counts_LE);
  for (size_t i = 0; i < chosen.size(); ++i) {
    const Tensor rows = counts_LE[static_cast<int64_t>(i)];
    chosen_[i] = chosen_[i].defined() ? chosen_[i] + rows : rows.clone();
  }
  if (config_.balance != Balance::Loss || config_.balance_rate == 0.0) return {};
  const auto all = counts_LE[-1][0].item<double>();
  const Tensor p_E = torch::stack(scores).mean(0);
  const Tensor f_E = counts_LE.slice(0, 0, -1).to(p_E.scalar_type()).mean(0) / all;
  return (f_E * p_E).sum() * (static_cast<double>(f_E.numel()) * static_cast<double>(own) / all);
}

Tensor RankModel::forward(nn::Llama& chunk, Part& part, const Tensor& x_BTD) {
  const Autocast autocast(config_.dtype == Precision::Bf16, part.tokens.inputs_BT.device());
  const Tensor y_BTD =
      chunk->through(chunk->is_first() ? chunk->embed(part.tokens.inputs_BT) : x_BTD, {}, part.tokens.starts_BT);
  if (!chunk->is_last()) return y_BTD;
  if (std::isinf(part.divisor)) {  // no target counts, but others wait for its backward pass, of all its parameters
    Tensor nothing = y_BTD.sum();
    for (const Tensor& p : chunk->parameters()) {
      if (p.requires_grad() && p.numel() > 0) nothing = nothing + p.sum();
    }
    return nothing * 0.0;
  }
  Tensor loss = chunk->loss_of(y_BTD, part.tokens.targets_BT);
  if (part.divisor != 1.0) loss = loss / part.divisor;
  part.loss = loss.item<double>();
  return loss;
}

void RankModel::run(std::vector<Part>& parts, bool backward) {
  const auto n = static_cast<int64_t>(parts.size());
  Group& line = world_.along({Axis::Pipeline});
  if (line.size() == 1) {
    for (int64_t i = 0; i < n; ++i) {
      Tensor objective = forward(chunks_.front(), parts[static_cast<size_t>(i)], {});
      if (!backward) continue;
      if (!mixtures_.empty()) {
        if (const Tensor balance = balance_loss(); balance.defined()) {
          objective = objective + balance * (config_.balance_rate / static_cast<double>(n));
        }
      }
      if (i == n - 1 && before_last_backward) before_last_backward();
      objective.backward();
    }
    return;
  }
  const auto n_chunks = static_cast<int64_t>(chunks_.size());
  const Tensor& tokens = parts.front().tokens.inputs_BT;
  const StageWork work{.shape = {tokens.size(0), tokens.size(1), config_.model.dim},
                       .type = pieces_.front().local.scalar_type(),
                       .forward = [&](int64_t chunk, int64_t microbatch, const Tensor& x) {
                         return forward(chunks_[static_cast<size_t>(chunk)], parts[static_cast<size_t>(microbatch)], x);
                       }};
  const Schedule schedule = !backward      ? forward_only(line.size(), n_chunks, n)
                            : n_chunks > 1 ? interleaved(line.size(), n_chunks, n)
                                           : one_f_one_b(line.size(), n);
  run_pipeline(schedule[static_cast<size_t>(line.index())], n_chunks, work, line);
  if (backward && !mixtures_.empty()) static_cast<void>(balance_loss());
}

double RankModel::pass(const std::vector<data::Batch>& batches) {
  std::vector<Part> parts = cut(batches);
  for (nn::Mixture& mixture : mixtures_) static_cast<void>(mixture->take_load());  // an evaluation's
  chosen_.assign(mixtures_.size(), {});
  run(parts, /*backward=*/true);
  Tensor loss = torch::zeros({1}, torch::kDouble);
  for (const Part& part : parts) loss += part.loss;
  world_.everyone().sum(loss);  // where there are no losses, of earlier stages, they are 0
  return loss.item<double>();
}

double RankModel::mean_loss(const data::BatchOf& batches, uint64_t first, uint64_t n) {
  const torch::NoGradGuard no_grad;
  for (nn::Llama& chunk : chunks_) chunk->eval();
  Tensor sums = torch::zeros({2}, torch::kDouble);
  for (uint64_t number = first; number < first + n; ++number) {
    const data::Batch batch = batches(number);
    std::vector<Part> parts = cut({batch});
    run(parts, /*backward=*/false);
    const auto counted = static_cast<double>(batch.n_counted());
    sums[0] += parts.front().loss * counted;
    if (world_.mesh().rank() == 0) sums[1] += counted;
  }
  world_.everyone().sum(sums);
  for (nn::Llama& chunk : chunks_) chunk->train();
  return (sums[0] / sums[1]).item<double>();
}

}  // namespace folio::train::parallel
