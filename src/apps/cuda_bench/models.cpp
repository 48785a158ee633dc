#include "apps/cuda_bench/models.h"

#include <cmath>
#include <cstring>
#include <map>

#include "core/error.h"
#include "core/float16.h"
#include "core/quantize.h"
#include "core/quants.h"
#include "core/random.h"

namespace folio::infer::gpu::bench {
namespace {

using core::DType;
using core::Role;

constexpr size_t kSlice = size_t{1} << 16U;  // elements that a thread processes at a time

bool is_end(Role role) { return role == Role::TokenEmbedding || role == Role::Output; }

void make_slice(DType type, std::span<const float> values, std::byte* to) {
  if (core::quant_info(type) != nullptr) {
    const auto blocks = core::quantize(type, values, "random");
    std::memcpy(to, blocks.data(), blocks.size());
  } else if (type == DType::F32) {
    std::memcpy(to, values.data(), values.size_bytes());
  } else {
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t bits = type == DType::F16 ? core::float_to_f16(values[i]) : core::float_to_bf16(values[i]);
      std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
    }
  }
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

std::vector<std::byte> random_numbers(DType type, size_t n, double scale, uint64_t seed, core::ThreadPool& pool) {
  const core::DTypeInfo& t = core::info(type);
  std::vector<std::byte> bytes(n / t.block_elements * t.block_bytes);
  pool.parallel_for(n, kSlice, [&](size_t begin, size_t end) {
    std::vector<float> values(kSlice);
    for (size_t i = begin; i < end; i += kSlice) {
      const size_t count = std::min(kSlice, end - i);
      for (size_t j = 0; j < count; ++j) {
        values[j] = static_cast<float>(scale * (2.0 * core::random_uniform(seed, i + j) - 1.0));
      }
      make_slice(type, std::span(values).first(count), bytes.data() + i / t.block_elements * t.block_bytes);
    }
  });
  return bytes;
}

core::StoredModel random_model(const core::ModelConfig& config, DType type, core::ThreadPool& pool) {
  core::StoredModel model{.path = "random weights", .format = core::ModelFormat::Gguf, .config = config};
  std::map<Role, std::shared_ptr<const std::vector<std::byte>>> made;
  for (const core::TensorSpec& spec : core::tensor_manifest(config)) {
    const bool is_matrix = spec.is_matrix();
    const DType stored = !is_matrix ? DType::F32 : type == DType::Q4_0 && is_end(spec.role) ? DType::Q8_0 : type;
    auto& bytes = made[spec.role];
    if (bytes == nullptr) {
      const auto n = static_cast<size_t>(spec.elements());
      if (is_matrix) {
        const double scale =
            spec.role == Role::TokenEmbedding ? 1.0 : std::sqrt(3.0 / static_cast<double>(spec.shape.back()));
        bytes = std::make_shared<const std::vector<std::byte>>(
            random_numbers(stored, n, scale, static_cast<uint64_t>(spec.role), pool));
      } else {
        const std::vector<float> ones(n, 1.0F);
        const auto view = std::as_bytes(std::span(ones));
        bytes = std::make_shared<const std::vector<std::byte>>(view.begin(), view.end());
      }
      model.storage.push_back(bytes);
    }
    model.tensors.push_back({.name = spec.gguf_name, .type = stored, .shape = spec.shape, .bytes = *bytes});
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
