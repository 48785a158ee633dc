#include "train/parallel/sharded.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <utility>

#include "train/lora/with_backward.h"
#include "train/parallel/autocast.h"

namespace folio::train::parallel {
namespace {

using torch::Tensor;

// Returns the generator whose state is restored for recomputation, so that dropout drops the same elements again.
at::Generator generator_of(const Tensor& x) { return at::globalContext().defaultGenerator(x.device()); }

// The cache would keep 16-bit copies of the weights of all blocks.
constexpr bool kCaches = false;

}  // namespace

ShardedBlockImpl::ShardedBlockImpl(nn::Block inner) : nn::BlockImpl(/*dropout=*/0.0), inner_(std::move(inner)) {
  for (const auto& child : inner_->named_children()) register_module(child.key(), child.value());
}

void ShardedBlockImpl::shard(std::vector<Piece> pieces, World& world) {
  pieces_ = std::move(pieces);
  world_ = &world;
  for (const Piece& piece : pieces_) shapes_.push_back(piece.local.sizes().vec());
  release();
}

void ShardedBlockImpl::train(bool on) {
  torch::nn::Module::train(on);
  inner_->train(on);
}

void ShardedBlockImpl::allocate() {
  const torch::NoGradGuard no_grad;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    Tensor& local = pieces_[i].local;
    if (local.numel() == 0) local.set_data(torch::empty(shapes_[i], local.options().requires_grad(false)));
  }
}

void ShardedBlockImpl::gather() {
  allocate();
  for (const Piece& piece : pieces_) broadcast_from_owner(piece, *world_);
}

void ShardedBlockImpl::release() {
  const torch::NoGradGuard no_grad;
  for (Piece& piece : pieces_) {
    if (!piece.is_owned_by(world_->mesh()))
      piece.local.set_data(torch::empty({0}, piece.local.options().requires_grad(false)));
  }
}

Tensor ShardedBlockImpl::forward(const Tensor& x, const Tensor& starts) {
  if (world_ == nullptr) return inner_->forward(x, starts);
  const Tensor random_state = generator_of(x).get_state();
  const bool autocast = at::autocast::is_autocast_enabled(x.device().type());
  return with_backward(
      {x},
      [&] {
        gather();
        const Autocast products(autocast, x.device().type(), kCaches);
        Tensor y = inner_->forward(x, starts);
        release();
        return y;
      },
      [this, x, starts, random_state, autocast](const Tensor& gradient) {
        return std::vector<Tensor>{backward(x, starts, gradient, random_state, autocast)};
      });
}

Tensor ShardedBlockImpl::backward(const Tensor& x, const Tensor& starts, const Tensor& gradient,
                                  const Tensor& random_state, bool autocast) {
  gather();
  at::Generator generator = generator_of(x);
  const Tensor now = generator.get_state();
  generator.set_state(random_state);
  std::vector<Tensor> inputs{x.detach().requires_grad_()};
  for (const Piece& piece : pieces_) {
    if (piece.local.requires_grad()) inputs.push_back(piece.local);
  }
  std::vector<Tensor> results;
  {
    const torch::AutoGradMode with_grad(true);
    Tensor y;
    {  // autocast is off in the backward pass; grad()'s products have the types of the forward pass
      const Autocast products(autocast, x.device().type(), kCaches);
      y = inner_->forward(inputs.front(), starts);
    }
    results = torch::autograd::grad({y}, inputs, {gradient});
  }
  generator.set_state(now);
  release();
  const torch::NoGradGuard no_grad;
  size_t next = 1;
  for (Piece& piece : pieces_) {
    if (!piece.local.requires_grad()) continue;
    const Tensor part = results[next++].contiguous();
    sum_at_owner(part, piece, *world_);
    if (!piece.is_owned_by(world_->mesh())) continue;
    Tensor& sum = piece.local.mutable_grad();
    sum = sum.defined() ? sum + part : part;
  }
  return results.front();
}

}  // namespace folio::train::parallel
