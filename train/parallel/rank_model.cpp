#include "train/parallel/rank_model.h"

#include <torch/utils.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/manifest.h"
#include "train/parallel/launch.h"

namespace folio::train::parallel {

using torch::Tensor;

namespace {

double n_counted(const Tensor& targets_BT) { return (targets_BT != nn::Parts::kIgnored).sum().item<double>(); }

}  // namespace

double loss_of(const std::vector<Microbatch>& parts, Tensor Microbatch::*loss) {
  double sum = 0.0;
  for (const Microbatch& part : parts) sum += (part.*loss).defined() ? (part.*loss).item<double>() : 0.0;
  return sum;
}

RankModel::RankModel(TrainConfig config, World& world, torch::Device device, Use use,
                     const std::shared_ptr<const core::StoredModel>& frozen, torch::ScalarType type)
    : config_(std::move(config)), world_(world), is_whole_(world.mesh().shape().is_data_alone()) {
  const Mesh& mesh = world.mesh();
  if (config_.device == DeviceKind::Cuda && mesh.shape().n_ranks() > 1 && !has_nccl()) {
    throw core::UsageError(
        "--device cuda: several ranks require NCCL, which this build lacks; build with a CUDA LibTorch and nccl.h");
  }
  if (use == Use::Average) {
    config_.dropout = 0.0;
    config_.fused = true;
    config_.mesh.zero = 0;
  }
  // Each rank initializes the whole model and keeps its part, so that initial weights do not depend on the mesh.
  const nn::Llama whole = is_whole_ ? nn::Llama(nullptr) : nn::family_llama(config_.model);
  const auto linears = frozen ? std::make_shared<const lora::LoraLinears>(frozen) : nn::dense();
  const auto parts = rank_parts(config_, world, linears, /*is_trained=*/use == Use::Training);
  const int64_t n_stages = mesh.size(Axis::Pipeline);
  if (n_stages == 1) {
    llama_ = nn::llama_of(config_.model, parts);
    if (frozen) {
      lora::freeze_rest(llama_, *frozen);
      lora::add_lora(llama_, adapter_info(config_));
    }
    modules_.push_back(llama_.ptr());
  } else {
    const int64_t n_chunks = config_.mesh.pipeline_chunks, layers = config_.model.n_layers / (n_stages * n_chunks);
    for (int64_t chunk = 0; chunk < n_chunks; ++chunk) {
      const int64_t first = (chunk * n_stages + mesh.at(Axis::Pipeline)) * layers;
      chunks_.emplace_back(config_.model, parts, first, first + layers);
      modules_.push_back(chunks_.back().ptr());
    }
  }
  for (const auto& module : modules_) {
    module->to(device, type);
    for (const auto& parameter : module->named_parameters()) {
      if (use == Use::Average) parameter.value().set_requires_grad(false);
      pieces_.push_back(piece_of(parameter.key(), parameter.value(), config_.model, mesh));
    }
    for (nn::Mixture& mixture : nn::mixtures_of(*module)) mixtures_.push_back(std::move(mixture));
  }
  if (!whole.is_empty()) load(whole);

  zero_ = std::make_unique<Zero>(pieces_, world, config_.mesh.zero);
  for (const auto& module : modules_) {
    for (const auto& inner : module->named_modules("", /*include_self=*/false)) {
      const auto block = std::dynamic_pointer_cast<ShardedBlockImpl>(inner.value());
      if (!block) continue;
      std::vector<Piece> own;
      std::ranges::copy_if(pieces_, std::back_inserter(own),
                           [&](const Piece& piece) { return piece.name.starts_with(inner.key() + "."); });
      block->shard(std::move(own), world);
      sharded_.push_back(block);
    }
  }
  is_whole_ = is_whole_ && sharded_.empty();
}

const Piece* RankModel::find(const std::string& parameter) const {
  const auto found = std::ranges::find(pieces_, parameter, &Piece::name);
  return found == pieces_.end() ? nullptr : &*found;
}

std::vector<Tensor> RankModel::tensors() const {
  std::vector<Tensor> all;
  for (const Piece& piece : pieces_) all.push_back(piece.local);
  return all;
}

std::vector<Tensor> RankModel::gradients() const {
  std::vector<Tensor> all;
  for (const Piece& piece : pieces_) {
    if (owns(piece)) all.push_back(piece.local.grad());
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
  double n_all = 0.0;
  for (const data::Batch& batch : batches) n_all += static_cast<double>(batch.n_counted());
  std::vector<Microbatch> parts;
  for (const data::Batch& batch : batches) {
    Microbatch part{.tokens = slice_of(to_tensors(batch, pieces_.front().local.device()), world_.mesh())};
    part.divisor = n_all / n_counted(part.tokens.targets_BT);
    parts.push_back(std::move(part));
  }
  if (!trains_ahead()) return parts;
  std::vector<double> n_ahead;
  for (const Microbatch& part : parts) {
    n_ahead.push_back(n_counted(nn::targets_ahead(part.tokens.targets_BT, part.tokens.starts_BT)));
  }
  const double n_all_ahead = world_.sum(std::accumulate(n_ahead.begin(), n_ahead.end(), 0.0));
  for (size_t i = 0; i < parts.size(); ++i) parts[i].ahead_divisor = std::max(n_all_ahead, 1.0) / n_ahead[i];
  return parts;
}

Tensor RankModel::forward(Microbatch& part, int64_t chunk, const Tensor& x_BTD) {
  const auto& [inputs_BT, targets_BT, starts_BT] = part.tokens;
  Tensor loss;
  if (trains_ahead()) {
    const auto [next, after_next] = llama_->as<nn::LlamaAhead>()->losses(inputs_BT, targets_BT, starts_BT);
    const Tensor main = next / part.divisor, ahead = after_next / part.ahead_divisor;
    part.loss = main.detach();
    part.ahead_loss = ahead.detach();
    return main + config_.mtp_weight * ahead;
  }
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

void RankModel::run_pipeline(std::vector<Microbatch>& parts,
                             const std::function<Tensor(Microbatch&, int64_t, const Tensor&)>& forward) {
  Group& line = world_.along({Axis::Pipeline});
  const auto n = static_cast<int64_t>(parts.size()), n_chunks = static_cast<int64_t>(chunks_.size());
  const Tensor& tokens = parts.front().tokens.inputs_BT;
  const StageWork work{.shape = {tokens.size(0), tokens.size(1), config_.model.dim},
                       .type = pieces_.front().local.scalar_type(),
                       .forward = [&](int64_t chunk, int64_t microbatch, const Tensor& x) {
                         return forward(parts[static_cast<size_t>(microbatch)], chunk, x);
                       }};
  const Schedule schedule = interleaved(line.size(), n_chunks, n);
  parallel::run_pipeline(schedule[static_cast<size_t>(line.index())], n_chunks, work, line);
}

double RankModel::loss(const data::Batch& batch) {
  const torch::NoGradGuard no_grad;
  const bool was_training = modules_.front()->is_training();
  train(false);
  std::vector<Microbatch> parts = cut({batch});
  if (has_pipeline()) {
    run_pipeline(parts, [&](Microbatch& part, int64_t chunk, const Tensor& x) { return forward(part, chunk, x); });
  } else {
    static_cast<void>(forward(parts.front()));
  }
  train(was_training);
  return loss_of(parts);
}

void RankModel::load(const nn::Llama& whole) {
  if (!llama_.is_empty() && whole.ptr() == llama_.ptr()) return;
  const torch::NoGradGuard no_grad;
  for (const auto& block : sharded_) block->allocate();
  const auto parameters = whole->named_parameters();
  for (Piece& piece : pieces_) piece.local.copy_(parallel::part_of(parameters[piece.name], piece, world_.mesh()));
  for (const auto& block : sharded_) block->release();
}

nn::Llama RankModel::to_fill() { return is_whole_ ? llama_ : nn::family_llama(config_.model); }

Tensor RankModel::part_of(const std::string& parameter, const Tensor& whole) {
  return parallel::part_of(whole, *find(parameter), world_.mesh());
}

// Broadcasts `local` from its owner to the data ranks, gathers the ranks' parts into a whole tensor, and broadcasts the
// whole tensor from the first pipeline stage that has the parameter to the other stages.
Tensor RankModel::gather(const std::string& parameter, const Tensor& local, const std::vector<int64_t>& shape) {
  const torch::NoGradGuard no_grad;
  Tensor value = local.defined() && local.numel() > 0 ? local.detach().contiguous() : Tensor();
  const auto from_first_that_has = [&](Group& group, at::IntArrayRef sizes) {
    const int64_t place = value.defined() ? group.index() : group.size();
    const auto index = -static_cast<int64_t>(group.largest(-static_cast<double>(place)));
    if (index == group.size()) return;
    if (!value.defined()) value = torch::empty(sizes, pieces_.front().local.options().requires_grad(false));
    group.broadcast(value, index);
  };
  if (const Piece* piece = find(parameter)) {
    const Tensor part = parallel::part_of(torch::empty(shape, torch::kMeta), *piece, world_.mesh());
    from_first_that_has(world_.along({Axis::Data}), part.sizes());
    if (value.defined()) value = whole_of(value, *piece, world_).contiguous();
  }
  from_first_that_has(world_.along({Axis::Pipeline}), shape);
  return value;
}

nn::Llama RankModel::put_together(bool gradients) {
  if (is_whole_ && !(gradients && zero_->stage() >= 2)) return llama_;
  nn::Llama whole = world_.is_first() ? nn::family_llama(config_.model) : nn::Llama(nullptr);
  for (const core::TensorSpec& spec : core::tensor_manifest(config_.model)) {
    const Piece* piece = find(spec.module_name);
    const Tensor local = piece == nullptr ? Tensor() : gradients ? piece->local.grad() : piece->local;
    const Tensor value = gather(spec.module_name, local, spec.shape);
    if (!world_.is_first() || !value.defined()) continue;
    Tensor parameter = *whole->named_parameters().find(spec.module_name);
    if (gradients) {
      parameter.mutable_grad() = value.to(torch::kCPU, value.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
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
    const auto says = [&](const char* part) { return what.find(part) != std::string::npos; };
    if (!says("gloo") && !says("NCCL") && !says("onnection") && !says("imed out")) throw;
    throw RankLost(fmt::format("all-reduce of gradients: {}", first_line(error)));
  }
}

}  // namespace folio::train::parallel
