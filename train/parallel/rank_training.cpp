#include "train/parallel/rank_training.h"

#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/manifest.h"
#include "core/random.h"
#include "train/step/weight_average.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

// An error of c10d, inside of a backward pass that sums gradients.
bool is_of_a_rank(const std::exception& error) {
  const std::string what = error.what();
  return std::ranges::any_of(std::array{"gloo", "NCCL", "onnection", "imed out"},
                             [&](const char* part) { return what.find(part) != std::string::npos; });
}

// On the CPU, where files are written from.
Tensor in_own_memory(const Tensor& t) {
  return t.to(torch::kCPU, t.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

RankTraining::RankTraining(const TrainConfig& config, World& world, const RankOptions& options, torch::ScalarType type)
    : config_(config), world_(world), model_(config, world, options.pipeline_chunks, wrapper(options)) {
  if (config.optimizer == OptimizerKind::GaLore && (options.zero > 0 || !is_data_alone(world.mesh().shape()))) {
    throw core::UsageError(
        "--optimizer galore: its state has shapes of its own, and is not divided; take data parallel ranks alone, "
        "without --zero");
  }
  for (nn::Llama& chunk : model_.chunks()) chunk->to(options.device, type);
  if (config.ema > 0.0) {
    average_ = std::make_unique<RankModel>(config, world, options.pipeline_chunks);
    for (nn::Llama& chunk : average_->chunks()) chunk->to(options.device);
  }
  zero_ = std::make_unique<Zero>(model_.pieces(), world, options.zero);
  for (auto& [layer, block] : sharded_) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    std::vector<Piece> pieces;
    std::vector<int64_t> owners;
    for (size_t i = 0; i < model_.pieces().size(); ++i) {
      if (!model_.pieces()[i].name.starts_with(prefix)) continue;
      pieces.push_back(model_.pieces()[i]);
      owners.push_back(zero_->owner(i));
    }
    block->shard(std::move(pieces), std::move(owners), world);
  }
  model_.before_last_backward = [this] { zero_->before_last_backward(); };
  for (size_t i = 0; i < model_.pieces().size(); ++i) index_.emplace(model_.pieces()[i].name, i);
}

BlockWrapper RankTraining::wrapper(const RankOptions& options) {
  if (options.zero < 3 || world_.mesh().size(Axis::Data) == 1) return {};
  if (config_.model.n_experts > 0)
    throw core::UsageError("--zero 3: blocks with experts are not sharded; take --expert-parallel, or --zero 2");
  if (config_.ema > 0.0) throw core::UsageError("--zero 3: there is no average of sharded weights; leave --ema out");
  return [this](nn::Block block, int64_t layer) -> nn::Block {
    ShardedBlock sharded(std::move(block));
    sharded_.emplace(layer, sharded);
    return nn::Block(std::static_pointer_cast<nn::BlockImpl>(sharded.ptr()));
  };
}

void RankTraining::load(const nn::Llama& whole, const nn::Llama& average) {
  for (auto& [layer, block] : sharded_) block->make_room();
  model_.load(whole);
  for (auto& [layer, block] : sharded_) block->release();
  if (average_) average_->load(average.is_empty() ? whole : average);
}

double RankTraining::pass(const std::vector<data::Batch>& batches, int64_t step) {
  for (nn::Llama& chunk : model_.chunks()) chunk->zero_grad();
  // Each rank drops out other numbers, those of a step whichever steps this process has done before.
  if (config_.dropout > 0.0) {
    const auto rank = static_cast<uint64_t>(world_.mesh().rank());
    torch::manual_seed(core::random_bits(config_.seed, (static_cast<uint64_t>(step) << 16U) + rank));
  }
  try {
    const double loss = model_.pass(batches);
    zero_->finish();
    return loss;
  } catch (const core::Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string what = error.what();
    if (is_of_a_rank(error)) throw RankLost(fmt::format("a sum of gradients: {}", what.substr(0, what.find('\n'))));
    throw;
  }
}

Parameters RankTraining::parameters() {
  std::vector<Trained> own;
  for (size_t i = 0; i < model_.pieces().size(); ++i) {
    const Piece& piece = model_.pieces()[i];
    if (!piece.local.requires_grad() || !zero_->owns(i)) continue;
    Trained trained{.name = piece.name, .tensor = piece.local};
    if (piece.cut_dim >= 0 && piece.by == Axis::Tensor) {  // the experts of a rank are whole matrices
      trained.cut_dim = piece.cut_dim;
      trained.ranks = &world_.along({Axis::Tensor});
    }
    own.push_back(std::move(trained));
  }
  return own;
}

void RankTraining::finish_step(int64_t step) {
  zero_->share();
  if (!average_) return;
  for (size_t i = 0; i < model_.chunks().size(); ++i)
    update_average(average_->chunks()[i], model_.chunks()[i], config_.ema, step);
}

double RankTraining::mean_loss(const data::BatchOf& batches, uint64_t first, uint64_t n) {
  return (average_ ? *average_ : model_).mean_loss(batches, first, n);
}

double RankTraining::largest(double value) {
  Tensor t = torch::full({1}, value, torch::kDouble);
  world_.everyone().largest(t);
  return t.item<double>();
}

Tensor RankTraining::part_of(const std::string& parameter, const Tensor& whole) {
  const auto found = index_.find(parameter);
  core::require(found != index_.end(), "rank {} has no part of {}", world_.mesh().rank(), parameter);
  return parallel::part_of(whole, model_.pieces()[found->second], world_.mesh());
}

// What belongs to a parameter, from a rank that has it to all of them: from its owner to the data copies, from all
// ranks of its cut, and from the first stage that has it to the others of the pipeline. `here`: this rank has it.
Tensor RankTraining::gather(const std::string& name, const Tensor& local, bool here,
                            const std::vector<int64_t>& shape) {
  const torch::NoGradGuard no_grad;
  Group& data = world_.along({Axis::Data});
  Group& line = world_.along({Axis::Pipeline});
  const auto first_that_has = [](Group& group, bool has) {
    Tensor index = torch::full({1}, has ? -group.index() : -group.size(), torch::kInt64);
    group.largest(index);
    return -index.item<int64_t>();
  };
  const auto found = index_.find(name);
  bool has = here;
  Tensor value = local;
  if (found != index_.end()) {
    const Piece& piece = model_.pieces()[found->second];
    if (const int64_t owner = first_that_has(data, here); owner < data.size()) {
      if (!here)
        value = torch::empty(parallel::part_of(torch::empty(shape, torch::kMeta), piece, world_.mesh()).sizes(),
                             model_.pieces().front().local.options().requires_grad(false));
      value = value.detach().contiguous();
      data.broadcast(value, owner);
      value = whole_of(value, piece, world_).contiguous();
      has = true;
    }
  }
  if (line.size() > 1) {
    const int64_t stage = first_that_has(line, has);
    if (stage == line.size()) return {};
    if (!has) value = torch::empty(shape, model_.pieces().front().local.options().requires_grad(false));
    line.broadcast(value, stage);
    has = true;
  }
  return has ? value : Tensor();
}

nn::Llama RankTraining::put_together(RankModel& from, bool gradients) {
  nn::Llama whole = is_first() ? nn::Llama(config_.model) : nn::Llama(nullptr);
  for (const core::TensorSpec& spec : core::tensor_manifest(config_.model)) {
    const auto found = index_.find(spec.module_name);
    Tensor local;
    if (found != index_.end()) {
      const Tensor& own = from.pieces()[found->second].local;
      local = gradients ? own.grad() : own.detach();
    }
    const bool here = local.defined() && local.numel() > 0;  // sharded, it is at its owner alone
    const Tensor value = gather(spec.module_name, local, here, spec.shape);
    if (!is_first() || !value.defined()) continue;
    Tensor parameter = *whole->named_parameters().find(spec.module_name);
    if (gradients) {
      parameter.mutable_grad() = in_own_memory(value);
    } else {
      const torch::NoGradGuard no_grad;
      parameter.copy_(value);
    }
  }
  return whole;
}

nn::Llama RankTraining::whole_model() { return put_together(model_, false); }
nn::Llama RankTraining::whole_average() { return average_ ? put_together(*average_, false) : nn::Llama(nullptr); }
nn::Llama RankTraining::whole_gradients() { return put_together(model_, true); }

std::vector<Optimizer::State> RankTraining::whole_state(const Optimizer& optimizer) {
  std::map<std::string, Tensor> own;
  for (const Optimizer::State& state : optimizer.state()) own.emplace(state.name, state.tensor);
  std::vector<Optimizer::State> all;
  for (const core::TensorSpec& spec : core::tensor_manifest(config_.model)) {
    for (const char* kind : {"exp_avg.", "exp_avg_sq.", "momentum_buffer.", "ortho_matrix."}) {
      const std::string name = kind + spec.module_name;
      const auto found = own.find(name);
      const Tensor value =
          gather(spec.module_name, found == own.end() ? Tensor() : found->second, found != own.end(), spec.shape);
      if (is_first() && value.defined()) all.push_back({name, in_own_memory(value)});
    }
  }
  return all;
}

}  // namespace folio::train::parallel
