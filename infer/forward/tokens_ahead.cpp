#include "infer/forward/tokens_ahead.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/error.h"

namespace folio::infer {
namespace {

using core::Role;

// Returns `matrix`, (n, 2 k), as a stack (2, n, k) of its halves, whose bytes are appended to `storage`. Converts to
// F32 if half a row is not a whole number of blocks.
core::TensorView in_halves(core::TensorView matrix, std::vector<std::shared_ptr<const void>>& storage) {
  const int64_t n = matrix.shape[0], k = matrix.shape[1] / 2;
  const bool whole = k % static_cast<int64_t>(core::info(matrix.type).block_elements) == 0;
  const std::vector<float> floats = whole ? std::vector<float>{} : core::to_floats(matrix);
  if (!whole) matrix.type = core::DType::F32;
  const std::span<const std::byte> from = whole ? matrix.bytes : std::as_bytes(std::span(floats));
  const size_t half = from.size() / static_cast<size_t>(2 * n);  // bytes of half a row
  const auto bytes = std::make_shared<std::vector<std::byte>>(from.size());
  for (size_t i = 0; i < static_cast<size_t>(2 * n); ++i) {
    const size_t to = i % 2 * static_cast<size_t>(n) + i / 2;
    std::memcpy(bytes->data() + to * half, from.data() + i * half, half);
  }
  matrix.bytes = *bytes;
  matrix.shape = {2, n, k};
  storage.push_back(bytes);
  return matrix;
}

// Returns a norm's weight divided by `scale`, the model's residual_scale. This cancels the factor residual_scale that
// ProjectToResidual in join_hidden() applies to the embedding's half of the product but not to the other half.
core::TensorView divided(core::TensorView weight, float scale, std::vector<std::shared_ptr<const void>>& storage) {
  const auto values = std::make_shared<std::vector<float>>(core::to_floats(weight));
  for (float& value : *values) value /= scale;
  weight.type = core::DType::F32;
  weight.bytes = std::as_bytes(std::span(*values));
  storage.push_back(values);
  return weight;
}

}  // namespace

core::StoredModel module_of(const core::StoredModel& model) {
  const core::ModelConfig& of = model.config;
  core::require(of.n_tokens_ahead > 0, "{}: the model has no module that predicts further tokens", model.path);
  core::StoredModel module{.path = model.path, .format = model.format, .config = of};
  core::ModelConfig& c = module.config;
  c.dense_layers = of.has_experts(of.n_layers) ? 0 : 1;
  if (!of.has_window(of.n_layers)) c.sliding_window = 0;
  c.n_layers = 0;
  const auto all = core::tensor_manifest(of);
  for (const core::TensorSpec& spec : core::tensor_manifest(c)) {
    const Role role = spec.role == Role::OutputNorm ? Role::MtpOutputNorm : spec.role;
    const auto found = std::ranges::find_if(
        all, [&](const core::TensorSpec& s) { return s.role == role && (s.layer < 0 || s.layer == of.n_layers); });
    core::TensorView tensor = model.tensors[static_cast<size_t>(found - all.begin())];
    if (role == Role::MtpProjection) tensor = in_halves(tensor, module.storage);
    if (role == Role::MtpEmbeddingNorm && of.residual_scale != 1.0F) {
      tensor = divided(tensor, of.residual_scale, module.storage);
    }
    module.tensors.push_back(tensor);
  }
  return module;
}

void join_hidden(Stage& m) {
  using enum Slot;
  const StageWeights& w = m.weights();
  const int64_t l = m.layers().first;
  const WeightId of_embedding = w(Role::MtpProjection, l), of_hidden{of_embedding.index + 1};
  m.issue(Norm{w(Role::MtpHiddenNorm, l)});
  m.issue(Project(Normed, std::array{Projection{of_hidden, {}, Residual}}));
  m.issue(Embed{w(Role::TokenEmbedding), Branch});
  m.issue(Norm{w(Role::MtpEmbeddingNorm, l), Branch});
  m.issue(ProjectToResidual{Normed, of_embedding, {}, {}});
}

bool keep_hidden(Stage& m, size_t n_logit_rows) {
  m.issue(Norm{m.weights()(Role::OutputNorm), Slot::Residual, Slot::Hidden});
  if (n_logit_rows > 0) m.issue(Gather{});
  return n_logit_rows > 0;
}

}  // namespace folio::infer
