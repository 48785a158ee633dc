// Tests a layer that several ranks compute together: outputs and all gradients equal those of one process.
#pragma once

#include <torch/nn/modules/container/any.h>
#include <torch/utils.h>

#include <functional>
#include <string>
#include <string_view>

#include "tests/modules/support.h"
#include "tests/train/parallel/support.h"
#include "train/parallel/piece.h"

namespace folio::train::parallel::test {

/// Returns a configuration of an attention layer with heads of four elements.
inline core::ModelConfig attention_config(core::Family family, int64_t n_heads, int64_t n_kv_heads) {
  return {.family = family,
          .vocab_size = 1,
          .dim = 10,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .head_dim = 4,
          .context_length = 64};
}

/// Returns the positions of `x` along `dim` that a context rank c of C has: chunks c and 2C - 1 - c of 2C chunks.
inline torch::Tensor context_positions_of(const torch::Tensor& x, const Mesh& mesh, int64_t dim = 1) {
  const int64_t C = mesh.size(Axis::Context), c = mesh.at(Axis::Context);
  const auto chunks = x.chunk(2 * C, dim);
  return torch::cat({chunks[static_cast<size_t>(c)], chunks[static_cast<size_t>(2 * C - 1 - c)]}, dim);
}

/// Returns the positions of x_BTD that a rank has: those of its context rank, divided among the tensor ranks.
inline torch::Tensor positions_of(const torch::Tensor& x_BTD, const Mesh& mesh) {
  const auto parts = context_positions_of(x_BTD, mesh).chunk(mesh.size(Axis::Tensor), 1);
  return parts[static_cast<size_t>(mesh.at(Axis::Tensor))].clone();
}

/// Returns the dimension along which tensor ranks divide a parameter, or -1 if each rank has all of it.
inline int64_t cut_of(std::string_view name) {
  if (name.starts_with("wo.") || name.starts_with("w2.")) return 1;
  const bool latent = name.starts_with("wq_a.") || name.starts_with("wkv_a.");
  return latent || name.find("norm") != std::string_view::npos ? -1 : 0;
}

/// Calls make(world) on each rank of `shape` to create the rank's part of a layer. Expects the outputs and gradients
/// for x [B, T, D] in double to equal those of `whole`, which is not divided. Both use `starts` [B, T] if defined.
inline void expect_whole_layer(torch::nn::AnyModule whole, const MeshShape& shape,
                               const std::function<torch::nn::AnyModule(World&)>& make, const torch::Tensor& x,
                               const torch::Tensor& starts = {}) {
  SCOPED_TRACE(to_string(shape));
  // The bound is for sums of about a hundred terms of magnitude 1.
  const auto expect_near = [](const torch::Tensor& actual, const torch::Tensor& expected, const std::string& what) {
    folio::test::expect_close(actual, expected, 1e-12 * (1 + folio::test::largest(expected)), what.c_str());
  };
  const auto forward = [](torch::nn::AnyModule& layer, const torch::Tensor& input, const torch::Tensor& starts_BT) {
    return starts_BT.defined() ? layer.forward(input, starts_BT) : layer.forward(input);
  };
  const auto input = x.detach().clone().set_requires_grad(true);
  const auto output = forward(whole, input, starts);
  const auto r = torch::randn_like(output);
  whole.ptr()->zero_grad();
  (r * output).sum().backward();
  const auto parameters = whole.ptr()->named_parameters();

  on_ranks(shape, [&](World& world) {
    const Mesh& mesh = world.mesh();
    torch::nn::AnyModule layer = make(world);
    layer.ptr()->to(torch::kDouble);
    const auto own_parameters = layer.ptr()->named_parameters();
    ASSERT_EQ(own_parameters.size(), parameters.size());
    const auto piece_of = [&](const std::string& name) {
      return Piece{.name = name,
                   .local = own_parameters[name],
                   .cut_dim = mesh.size(Axis::Tensor) > 1 ? cut_of(name) : -1,
                   .by = Axis::Tensor};
    };
    for (const auto& parameter : parameters) {
      const torch::NoGradGuard no_grad;
      const Piece piece = piece_of(parameter.key());
      piece.local.copy_(part_of(parameter.value(), piece, mesh));
    }
    const auto own_input = positions_of(x, mesh).set_requires_grad(true);
    const auto own_starts = starts.defined() ? context_positions_of(starts, mesh) : starts;
    const auto own_output = forward(layer, own_input, own_starts);
    expect_near(own_output, positions_of(output, mesh), "outputs");
    (positions_of(r, mesh) * own_output).sum().backward();
    expect_near(own_input.grad(), positions_of(input.grad(), mesh), "the input's gradient");
    for (const auto& parameter : parameters) {
      const Piece piece = piece_of(parameter.key());
      auto gradient = piece.local.grad().contiguous().clone();
      world.along(piece.copies()).sum(gradient);
      expect_near(whole_of(gradient, piece, world), parameter.value().grad(), "the gradient of " + parameter.key());
    }
  });
}

}  // namespace folio::train::parallel::test
