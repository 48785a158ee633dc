#include "apps/cuda_bench/models.h"

#include <cmath>
#include <map>

#include "core/error.h"
#include "core/mixtures.h"
#include "core/random.h"

namespace folio::infer::gpu::bench {
namespace {

using core::DType;
using core::Role;

// Returns the elements of a tensor. Vectors contain ones. Matrices contain random values, scaled so that products keep
// the magnitude of the activations.
std::vector<float> values_of(const core::TensorSpec& spec, core::ThreadPool& pool) {
  std::vector<float> values(static_cast<size_t>(spec.elements()), 1.0F);
  if (!spec.is_matrix()) return values;
  const double scale =
      spec.role == Role::TokenEmbedding ? 1.0 : std::sqrt(3.0 / static_cast<double>(spec.shape.back()));
  pool.parallel_for(values.size(), 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const double x = core::random_uniform(static_cast<uint64_t>(spec.role), i);
      values[i] = static_cast<float>(scale * (2.0 * x - 1.0));
    }
  });
  return values;
}

}  // namespace

core::ModelConfig shape(const std::string& name, int64_t context_length) {
  core::ModelConfig c{.context_length = context_length, .tie_embeddings = false};
  const auto set = [&](int64_t vocab_size, int64_t dim, int64_t n_layers, int64_t n_heads, int64_t n_kv_heads,
                       int64_t hidden_dim) {
    c.vocab_size = vocab_size;
    c.dim = dim;
    c.n_layers = n_layers;
    c.n_heads = n_heads;
    c.n_kv_heads = n_kv_heads;
    c.head_dim = dim / n_heads;
    c.hidden_dim = hidden_dim;
    return c;
  };
  if (name == "8b") return set(128256, 4096, 32, 32, 8, 14336);
  if (name == "1.1b") return set(32000, 2048, 22, 32, 4, 5632);
  if (name == "tiny") return set(96, 64, 2, 4, 2, 128);
  throw core::UsageError("shape \"" + core::printable(name) + "\", expected 8b, 1.1b or tiny");
}

DType type_of(const std::string& name) {
  for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0}) {
    std::string lower(core::info(type).name);
    for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    if (lower == name) return type;
  }
  throw core::UsageError("type \"" + core::printable(name) + "\", expected f32, f16, bf16, q8_0 or q4_0");
}

core::StoredModel random_model(const core::ModelConfig& config, DType type, core::ThreadPool& pool) {
  core::StoredModel model{.path = "random weights", .format = core::ModelFormat::Gguf, .config = config};
  std::map<Role, std::shared_ptr<const std::vector<std::byte>>> made;
  const std::vector<core::TensorSpec> manifest = core::tensor_manifest(config);
  const std::vector<DType> types = core::uniform_types(config, type);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const core::TensorSpec& spec = manifest[i];
    auto& bytes = made[spec.role];
    if (bytes == nullptr) {
      const std::vector<float> values = values_of(spec, pool);
      const core::TensorView floats{
          .name = spec.gguf_name, .shape = spec.shape, .bytes = std::as_bytes(std::span(values))};
      const core::TensorStream stream = core::stream_as({floats}, std::span(types).subspan(i, 1));
      const auto converted = stream.bytes(0);
      bytes = std::make_shared<const std::vector<std::byte>>(converted.begin(), converted.end());
      model.storage.push_back(bytes);
    }
    model.tensors.push_back({.name = spec.gguf_name, .type = types[i], .shape = spec.shape, .bytes = *bytes});
  }
  return model;
}

uint64_t bytes_of_token(const core::StoredModel& model) {
  const auto manifest = core::tensor_manifest(model.config);
  uint64_t bytes = 0;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (manifest[i].role != Role::TokenEmbedding || model.config.tie_embeddings) bytes += model.tensors[i].bytes.size();
  }
  return bytes;
}

uint64_t bytes_of_position(const core::ModelConfig& c, bool half) {
  return static_cast<uint64_t>(c.n_layers * 2 * c.kv_dim()) * (half ? 2 : 4);
}

double operations_of_row(const core::ModelConfig& c) {
  return 2.0 * static_cast<double>(c.n_layers * c.dim * (2 * c.query_dim() + 2 * c.kv_dim() + 3 * c.hidden_dim));
}

double operations_of_logits(const core::ModelConfig& c) { return 2.0 * static_cast<double>(c.dim * c.vocab_size); }

}  // namespace folio::infer::gpu::bench
