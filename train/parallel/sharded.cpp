#include "train/parallel/sharded.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/utils.h>

#include <utility>

namespace folio::train::parallel {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Dropout must drop the same elements when a block is computed again.
at::Generator generator_of(const Tensor& x) { return at::globalContext().defaultGenerator(x.device()); }

// What the backward pass needs of a forward pass, besides its input.
struct Pass : torch::CustomClassHolder {
  ShardedBlockImpl* block = nullptr;
  Tensor starts, random_state, output;
};

class ShardedFunction : public torch::autograd::Function<ShardedFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const c10::intrusive_ptr<Pass>& pass) {
    context->save_for_backward({x});
    context->saved_data["pass"] = c10::IValue::make_capsule(pass);
    return std::exchange(pass->output, {});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto pass = c10::static_intrusive_pointer_cast<Pass>(context->saved_data["pass"].toCapsule());
    const Tensor x = context->get_saved_variables().front();
    return {pass->block->backward(x, pass->starts, gradients[0], pass->random_state), {}};
  }
};

}  // namespace

ShardedBlockImpl::ShardedBlockImpl(nn::Block inner) : nn::BlockImpl(/*dropout=*/0.0), inner_(std::move(inner)) {
  for (const auto& child : inner_->named_children()) register_module(child.key(), child.value());
}

void ShardedBlockImpl::shard(std::vector<Piece> pieces, std::vector<int64_t> owners, World& world) {
  pieces_ = std::move(pieces);
  owners_ = std::move(owners);
  world_ = &world;
  for (const Piece& piece : pieces_) shapes_.push_back(piece.local.sizes().vec());
}

void ShardedBlockImpl::train(bool on) {
  torch::nn::Module::train(on);
  inner_->train(on);
}

void ShardedBlockImpl::make_room() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    Tensor& local = pieces_[i].local;
    if (local.numel() == 0) local.set_data(torch::empty(shapes_[i], local.options().requires_grad(false)));
  }
}

void ShardedBlockImpl::gather() {
  make_room();
  for (size_t i = 0; i < pieces_.size(); ++i) broadcast_from_owner(pieces_[i], owners_[i], *world_);
}

void ShardedBlockImpl::release() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    Tensor& local = pieces_[i].local;
    if (owners_[i] != world_->mesh().at(Axis::Data))
      local.set_data(torch::empty({0}, local.options().requires_grad(false)));
  }
}

Tensor ShardedBlockImpl::forward(const Tensor& x, const Tensor& starts) {
  if (world_ == nullptr) return inner_->forward(x, starts);
  const auto pass = c10::make_intrusive<Pass>();
  pass->block = this;
  pass->starts = starts;
  pass->random_state = generator_of(x).get_state();
  {
    const torch::NoGradGuard no_grad;
    gather();
    pass->output = inner_->forward(x, starts);
    release();
  }
  return torch::GradMode::is_enabled() ? ShardedFunction::apply(x, pass) : pass->output;
}

Tensor ShardedBlockImpl::backward(const Tensor& x, const Tensor& starts, const Tensor& gradient,
                                  const Tensor& random_state) {
  gather();
  at::Generator generator = generator_of(x);
  const Tensor now = generator.get_state();
  generator.set_state(random_state);
  variable_list inputs{x.detach().requires_grad_()};
  for (const Piece& piece : pieces_) {
    if (piece.local.requires_grad()) inputs.push_back(piece.local);
  }
  variable_list results;
  {
    const torch::AutoGradMode with_grad(true);
    const Tensor y = inner_->forward(inputs.front(), starts);
    results = torch::autograd::grad({y}, inputs, {gradient});
  }
  generator.set_state(now);
  release();
  const torch::NoGradGuard no_grad;
  size_t next = 1;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!pieces_[i].local.requires_grad()) continue;
    const Tensor part = results[next++].contiguous();
    sum_at_owner(part, pieces_[i], owners_[i], *world_);
    if (owners_[i] != world_->mesh().at(Axis::Data)) continue;
    Tensor& sum = pieces_[i].local.mutable_grad();
    sum = sum.defined() ? sum + part : part;
  }
  return results.front();
}

}  // namespace folio::train::parallel
