#include "train/parallel/rank_model.h"

#include <torch/utils.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/manifest.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

// On the CPU, where files are written from.
Tensor in_own_memory(const Tensor& t) {
  return t.to(torch::kCPU, t.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

double loss_of(const std::vector<Microbatch>& parts) {
  double loss = 0.0;
  for (const Microbatch& part : parts) loss += part.loss.defined() ? part.loss.item<double>() : 0.0;
  return loss;
}

RankModel::RankModel(TrainConfig config, World& world, torch::Device device, Use use,
                     const std::shared_ptr<const lora::FrozenWeights>& frozen, torch::ScalarType type)
    : config_(std::move(config)), world_(world), is_whole_(is_data_alone(world.mesh().shape())) {
  const Mesh& mesh = world.mesh();
  require_fits(config_, mesh.shape());
  fused::Fusion fusion = fusion_of(config_);
  if (use == Use::Average) {
    fusion = {.experts = true};
    config_.dropout = 0.0;
    config_.fused = true;
    config_.mesh.zero = 0;
  }
  // All ranks draw the numbers of one process, and keep their part.
  const nn::Llama whole = is_whole_ ? nn::Llama(nullptr) : nn::family_llama(config_.model);
  const auto linears = frozen ? std::make_shared<const lora::LoraLinears>(frozen) : nn::dense();
  const auto parts = rank_parts(config_, world, fusion, linears, wrapper());
  const int64_t n_stages = mesh.size(Axis::Pipeline);
  if (n_stages == 1) {
    llama_ = nn::Llama(config_.model, parts);
    if (frozen) {
      lora::freeze_rest(llama_, *frozen);
      lora::add_lora(llama_, lora_options(config_));
    }
    modules_.push_back(llama_.ptr());
  } else {
    const int64_t n_chunks = config_.mesh.pipeline_chunks, layers = config_.model.n_layers / (n_stages * n_chunks);
    for (int64_t chunk = 0; chunk < n_chunks; ++chunk) {
      const int64_t first = (chunk * n_stages + mesh.at(Axis::Pipeline)) * layers;
      chunks_.emplace_back(config_.model, parts, LayerRange{.first = first, .last = first + layers});
      modules_.push_back(chunks_.back().ptr());
    }
  }
  for (const auto& module : modules_) {
    module->to(device, type);
    for (const auto& parameter : module->named_parameters()) {
      if (use == Use::Average) parameter.value().set_requires_grad(false);
      index_.emplace(parameter.key(), pieces_.size());
      pieces_.push_back(piece_of(parameter.key(), parameter.value(), config_.model, mesh));
    }
    for (nn::Mixture& mixture : nn::mixtures_of(*module)) mixtures_.push_back(std::move(mixture));
  }
  train(true);
  if (!whole.is_empty()) load(whole);

  zero_ = std::make_unique<Zero>(pieces_, world, config_.mesh.zero);
  is_whole_ = is_whole_ && sharded_.empty();
  for (auto& [layer, block] : sharded_) {
    const std::string prefix = fmt::format("layers.{}.", layer);
    std::vector<Piece> own;
    std::vector<int64_t> owners;
    for (size_t i = 0; i < pieces_.size(); ++i) {
      if (!pieces_[i].name.starts_with(prefix)) continue;
      own.push_back(pieces_[i]);
      owners.push_back(zero_->owner(i));
    }
    block->shard(std::move(own), std::move(owners), world);
    block->release();
  }
}

BlockWrapper RankModel::wrapper() {
  if (config_.mesh.zero < 3 || world_.mesh().size(Axis::Data) == 1) return {};
  return [this](nn::Block block, int64_t layer) -> nn::Block {
    ShardedBlock sharded(std::move(block));
    sharded_.emplace(layer, sharded);
    return nn::Block(std::static_pointer_cast<nn::BlockImpl>(sharded.ptr()));
  };
}

std::vector<Tensor> RankModel::tensors() const {
  std::vector<Tensor> all;
  for (const Piece& piece : pieces_) all.push_back(piece.local);
  return all;
}

std::vector<Tensor> RankModel::gradients() const {
  std::vector<Tensor> all;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (owns(i)) all.push_back(pieces_[i].local.grad());
  }
  return all;
}

void RankModel::train(bool on) {
  for (const auto& module : modules_) module->train(on);
}

void RankModel::zero_grad() {
  for (const auto& module : modules_) module->zero_grad();
}

std::vector<Microbatch> RankModel::cut(const std::vector<data::Batch>& batches) const {
  double n_counted = 0.0;
  for (const data::Batch& batch : batches) n_counted += static_cast<double>(batch.n_counted());
  std::vector<Microbatch> parts;
  for (const data::Batch& batch : batches) {
    Microbatch part{.tokens = slice_of(to_tensors(batch, pieces_.front().local.device()), world_.mesh())};
    part.divisor = n_counted / (part.tokens.targets_BT != nn::Parts::kIgnored).sum().item<double>();
    parts.push_back(std::move(part));
  }
  return parts;
}

bool RankModel::is_last(int64_t chunk) const {
  return chunks_.empty() || chunks_[static_cast<size_t>(chunk)]->is_last();
}

Tensor RankModel::forward(Microbatch& part, int64_t chunk, const Tensor& x_BTD) {
  const auto& [inputs_BT, targets_BT, starts_BT] = part.tokens;
  Tensor loss;
  if (!has_pipeline()) {
    loss = llama_->loss(inputs_BT, targets_BT, starts_BT);
  } else {
    Chunk& layers = chunks_[static_cast<size_t>(chunk)];
    const Tensor y_BTD = layers->forward(layers->is_first() ? inputs_BT : x_BTD, starts_BT);
    if (!layers->is_last()) return y_BTD;
    loss = layers->loss(y_BTD, targets_BT);
  }
  if (part.divisor != 1.0) loss = loss / part.divisor;
  part.loss = loss.detach();
  return loss;
}

void RankModel::run_pipeline(std::vector<Microbatch>& parts, bool backward,
                             const std::function<Tensor(Microbatch&, int64_t, const Tensor&)>& forward) {
  Group& line = world_.along({Axis::Pipeline});
  const auto n = static_cast<int64_t>(parts.size()), n_chunks = static_cast<int64_t>(chunks_.size());
  const Tensor& tokens = parts.front().tokens.inputs_BT;
  const StageWork work{.shape = {tokens.size(0), tokens.size(1), config_.model.dim},
                       .type = pieces_.front().local.scalar_type(),
                       .forward = [&](int64_t chunk, int64_t microbatch, const Tensor& x) {
                         return forward(parts[static_cast<size_t>(microbatch)], chunk, x);
                       }};
  const Schedule schedule = !backward      ? forward_only(line.size(), n_chunks, n)
                            : n_chunks > 1 ? interleaved(line.size(), n_chunks, n)
                                           : one_f_one_b(line.size(), n);
  parallel::run_pipeline(schedule[static_cast<size_t>(line.index())], n_chunks, work, line);
}

void RankModel::reduce() {
  if (world_.mesh().shape().n_ranks() > 1) zero_->finish();
}

double RankModel::gradient_norm() { return zero_->gradient_norm(); }

double RankModel::loss(const data::Batch& batch) {
  const torch::NoGradGuard no_grad;
  const bool was_training = modules_.front()->is_training();
  train(false);
  std::vector<Microbatch> parts = cut({batch});
  if (has_pipeline()) {
    run_pipeline(parts, false,
                 [&](Microbatch& part, int64_t chunk, const Tensor& x) { return forward(part, chunk, x); });
  } else {
    static_cast<void>(forward(parts.front()));
  }
  train(was_training);
  return loss_of(parts);
}

void RankModel::load(const nn::Llama& whole) {
  if (!llama_.is_empty() && whole.ptr() == llama_.ptr()) return;
  const torch::NoGradGuard no_grad;
  for (auto& [layer, block] : sharded_) block->make_room();
  const auto parameters = whole->named_parameters();
  for (Piece& piece : pieces_) piece.local.copy_(parallel::part_of(parameters[piece.name], piece, world_.mesh()));
  for (auto& [layer, block] : sharded_) block->release();
}

nn::Llama RankModel::to_fill() { return is_whole_ ? llama_ : nn::family_llama(config_.model); }

Tensor RankModel::part_of(const std::string& parameter, const Tensor& whole) {
  const auto found = index_.find(parameter);
  core::require(found != index_.end(), "rank {} has no part of {}", world_.mesh().rank(), parameter);
  return parallel::part_of(whole, pieces_[found->second], world_.mesh());
}

// From its owner to the data copies, from all ranks of its cut, and from the first stage that has it to the others of
// the pipeline.
Tensor RankModel::gather(const std::string& parameter, const Tensor& local, bool here,
                         const std::vector<int64_t>& shape) {
  const torch::NoGradGuard no_grad;
  Group& data = world_.along({Axis::Data});
  Group& line = world_.along({Axis::Pipeline});
  const auto first_that_has = [](Group& group, bool has) {
    Tensor index = torch::full({1}, has ? -group.index() : -group.size(), torch::kInt64);
    group.largest(index);
    return -index.item<int64_t>();
  };
  const auto found = index_.find(parameter);
  const auto options = pieces_.front().local.options().requires_grad(false);
  bool has = here;
  Tensor value = local;
  if (found != index_.end()) {
    const Piece& piece = pieces_[found->second];
    if (const int64_t owner = first_that_has(data, here); owner < data.size()) {
      if (!here)
        value =
            torch::empty(parallel::part_of(torch::empty(shape, torch::kMeta), piece, world_.mesh()).sizes(), options);
      value = value.detach().contiguous();
      data.broadcast(value, owner);
      value = whole_of(value, piece, world_).contiguous();
      has = true;
    }
  }
  if (line.size() > 1) {
    const int64_t stage = first_that_has(line, has);
    if (stage == line.size()) return {};
    if (!has) value = torch::empty(shape, options);
    line.broadcast(value, stage);
    has = true;
  }
  return has ? value : Tensor();
}

nn::Llama RankModel::put_together(bool gradients) {
  if (is_whole_ && !(gradients && zero_->stage() >= 2)) return llama_;
  nn::Llama whole = world_.is_first() ? nn::family_llama(config_.model) : nn::Llama(nullptr);
  for (const core::TensorSpec& spec : core::tensor_manifest(config_.model)) {
    const auto found = index_.find(spec.module_name);
    Tensor local;
    if (found != index_.end()) {
      const Tensor& own = pieces_[found->second].local;
      local = gradients ? own.grad() : own.detach();
    }
    const bool here = local.defined() && local.numel() > 0;  // sharded, it is at its owner alone
    const Tensor value = gather(spec.module_name, local, here, spec.shape);
    if (!world_.is_first() || !value.defined()) continue;
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

void naming_lost_ranks(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string what = error.what();
    const bool of_a_rank = std::ranges::any_of(std::array{"gloo", "NCCL", "onnection", "imed out"},
                                               [&](const char* part) { return what.find(part) != std::string::npos; });
    if (of_a_rank) throw RankLost(fmt::format("a sum of gradients: {}", what.substr(0, what.find('\n'))));
    throw;
  }
}

}  // namespace folio::train::parallel
