// Helpers for the engine's tests: small random models of many shapes, input rows, and bitwise comparison. All random
// values depend only on a seed, so failures are reproducible.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "core/float16.h"
#include "core/manifest.h"
#include "core/quants.h"
#include "core/random.h"
#include "infer/cpu/cpu.h"
#include "infer/cpu/matrix.h"
#include "infer/forward/runner.h"
#include "tests/core/support.h"

namespace folio::core {
inline void PrintTo(Isa isa, std::ostream* out) { *out << isa_name(isa); }  // used by GoogleTest for test parameters
}  // namespace folio::core

namespace folio::infer::test {

using core::test::TempDir;

/// Returns n random values, uniform in [-scale, scale).
inline std::vector<float> random_floats(size_t n, uint64_t seed, double scale = 1.0) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(scale * (2.0 * core::random_uniform(seed, i) - 1.0));
  return values;
}

inline std::vector<int32_t> random_tokens(size_t n, uint64_t seed, int64_t vocab_size) {
  std::vector<int32_t> tokens(n);
  for (size_t i = 0; i < n; ++i) {
    tokens[i] = static_cast<int32_t>(core::random_below(seed, i, static_cast<uint64_t>(vocab_size)));
  }
  return tokens;
}

/// Returns success if `got` and `expected` have the same bits: 0 differs from -0, and NaNs with equal bits are equal.
inline ::testing::AssertionResult same_bits(std::span<const float> got, std::span<const float> expected) {
  if (got.size() != expected.size()) {
    return ::testing::AssertionFailure() << got.size() << " numbers, not " << expected.size();
  }
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(expected[i])) continue;
    return ::testing::AssertionFailure() << "number " << i << " of " << got.size() << " is " << std::hexfloat << got[i]
                                         << ", not " << expected[i];
  }
  return ::testing::AssertionSuccess();
}

struct Shape {
  std::string name;
  core::ModelConfig config;
  core::DType type = core::DType::F32;  ///< type of the matrices; vectors are F32
};

inline void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

inline core::ModelConfig config_of(core::Family family, int64_t vocab_size, int64_t dim, int64_t n_layers,
                                   int64_t n_heads, int64_t n_kv_heads, int64_t hidden_dim, int64_t context_length,
                                   bool tied = false) {
  return {.family = family,
          .vocab_size = vocab_size,
          .dim = dim,
          .n_layers = n_layers,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .hidden_dim = hidden_dim,
          .context_length = context_length,
          .tie_embeddings = tied};
}

/// Returns small models without experts: Llamas, and families with biases, head norms and sliding windows.
inline std::vector<Shape> small_shapes() {
  using core::Family;
  std::vector<Shape> shapes{{"mha_tied", config_of(Family::Llama, 50, 64, 2, 4, 4, 96, 128, true)},
                            {"gqa_head10_untied", config_of(Family::Llama, 37, 60, 2, 6, 2, 33, 100)},
                            {"mqa_head2_tied", config_of(Family::Llama, 11, 10, 3, 5, 1, 7, 70, true)},
                            {"mha_head6_untied", config_of(Family::Llama, 29, 18, 1, 3, 3, 33, 130)},
                            {"mqa_head48_tied", config_of(Family::Llama, 65, 96, 2, 2, 1, 81, 96, true)},
                            {"gqa_head80_untied", config_of(Family::Llama, 66, 320, 1, 4, 2, 101, 90)},
                            {"qwen2", config_of(Family::Qwen2, 31, 36, 2, 6, 2, 33, 100, true)},
                            {"qwen3_wide_heads", config_of(Family::Qwen3, 31, 24, 2, 4, 2, 40, 100)},
                            {"mistral_window40", config_of(Family::Mistral, 31, 48, 2, 6, 2, 40, 130)},
                            {"qwen2_window3", config_of(Family::Qwen2, 31, 64, 3, 2, 2, 20, 90, true)}};
  shapes[1].config.rope_theta = shapes[6].config.rope_theta = 500.0F;
  shapes[3].config.norm_eps = 1e-2F;
  shapes[7].config.head_dim = 34;
  shapes[8].config.head_dim = 18;
  shapes[8].config.sliding_window = 40;
  shapes[9].config.sliding_window = 3;
  return shapes;
}

/// Returns shapes of models with experts. They cover odd widths, more experts than a tile has rows, shared experts,
/// expert groups, selection biases, a first layer without experts, and block types.
inline std::vector<Shape> expert_shapes() {
  using core::Family;
  const auto with_experts = [](core::ModelConfig c, int64_t n_experts, int64_t experts_per_token, int64_t expert_dim) {
    c.n_experts = n_experts;
    c.experts_per_token = experts_per_token;
    c.expert_dim = expert_dim;
    return c;
  };
  auto mixtral = with_experts(config_of(Family::Mixtral, 31, 36, 2, 6, 2, 21, 100), 5, 2, 21);
  mixtral.normalize_routes = true;
  auto qwen2 = with_experts(config_of(Family::Qwen2Moe, 31, 48, 2, 4, 2, 40, 100, true), 20, 3, 34);
  qwen2.shared_dim = 27;
  auto dots = with_experts(config_of(Family::Dots1, 31, 64, 3, 4, 2, 40, 100, true), 12, 4, 17);
  dots.head_dim = 18;
  dots.shared_dim = 34;
  dots.dense_layers = 1;
  dots.expert_groups = 4;
  dots.groups_per_token = 2;
  dots.normalize_routes = true;
  dots.route_scale = 2.5F;
  const auto olmoe = with_experts(config_of(Family::Olmoe, 37, 64, 2, 4, 2, 96, 96), 6, 2, 96);
  auto gpt_oss = with_experts(config_of(Family::GptOss, 31, 64, 2, 4, 2, 32, 100), 6, 2, 32);
  gpt_oss.head_dim = 18;
  gpt_oss.normalize_routes = true;
  gpt_oss.sliding_window = 21;
  gpt_oss.window_period = 2;
  core::ModelConfig gpt_oss_blocks = gpt_oss;
  gpt_oss_blocks.head_dim = 32;
  return {{"mixtral", mixtral},
          {"qwen2_moe", qwen2},
          {"dots1", dots},
          {"olmoe_f16", olmoe, core::DType::F16},
          {"olmoe_Q8_0", olmoe, core::DType::Q8_0},
          {"olmoe_Q4_0", olmoe, core::DType::Q4_0},
          {"gpt_oss", gpt_oss},
          {"gpt_oss_MXFP4", gpt_oss_blocks, core::DType::MXFP4}};
}

/// Returns shapes with parts that Llama lacks: other norms, soft caps, scales, windows, two RoPE bases, partial RoPE.
inline std::vector<Shape> part_shapes() {
  core::ModelConfig gemma2 = config_of(core::Family::Gemma2, 31, 36, 3, 4, 2, 33, 100, true);
  gemma2.head_dim = 18;
  gemma2.sliding_window = 21;
  gemma2.window_period = 2;
  gemma2.embedding_scale = 6.0F;
  gemma2.attention_cap = 3.0F;
  gemma2.logit_cap = 2.0F;
  core::ModelConfig gemma3 = gemma2;
  gemma3.family = core::Family::Gemma3;
  gemma3.attention_cap = gemma3.logit_cap = 0.0F;
  gemma3.rope_theta = 1e6F;
  gemma3.local_rope_theta = 1e4F;
  const core::ModelConfig olmo2 = config_of(core::Family::Olmo2, 31, 48, 2, 4, 2, 40, 100);
  core::ModelConfig granite = olmo2;
  granite.family = core::Family::Granite;
  granite.embedding_scale = 12.0F;
  granite.attention_scale = 0.11F;
  granite.residual_scale = 0.22F;
  granite.logit_scale = 0.125F;
  core::ModelConfig glm4 = olmo2;
  glm4.family = core::Family::Glm4;
  glm4.head_dim = 20;
  glm4.rope_dims = 10;
  return {{"gemma2", gemma2}, {"gemma3", gemma3}, {"olmo2", olmo2}, {"granite", granite}, {"glm4", glm4}};
}

/// Returns shapes of models with latent attention: with and without a latent for queries, with odd widths, experts, and
/// a quantized type.
inline std::vector<Shape> latent_shapes() {
  core::ModelConfig v2 = config_of(core::Family::DeepseekV2, 31, 48, 2, 5, 5, 40, 100);
  v2.head_dim = 17;
  v2.kv_lora_rank = 26;
  v2.qk_nope_head_dim = 11;
  v2.qk_rope_head_dim = 6;
  v2.v_head_dim = 9;
  v2.rope_theta = 500.0F;
  core::ModelConfig v3 = v2;
  v3.family = core::Family::DeepseekV3;
  v3.q_lora_rank = 18;
  v3.n_experts = 12;
  v3.experts_per_token = 4;
  v3.expert_dim = 17;
  v3.shared_dim = 34;
  v3.dense_layers = 1;
  v3.expert_groups = 4;
  v3.groups_per_token = 2;
  v3.normalize_routes = true;
  v3.route_scale = 2.5F;
  core::ModelConfig blocks = v2;  // 18 heads, which can't be divided evenly among four threads or ranks
  blocks.dim = 64;
  blocks.n_heads = blocks.n_kv_heads = 18;
  blocks.kv_lora_rank = 64;
  blocks.qk_nope_head_dim = 32;
  blocks.qk_rope_head_dim = 32;
  blocks.head_dim = 64;
  blocks.v_head_dim = 32;
  blocks.hidden_dim = 64;
  return {{"deepseek_v2", v2},
          {"deepseek_v3", v3},
          {"deepseek_v2_f16", v2, core::DType::F16},
          {"deepseek_v2_Q8_0", blocks, core::DType::Q8_0}};
}

/// Returns shapes of models with a module for multi-token prediction, which predicts the token after the next.
inline std::vector<Shape> ahead_shapes() {
  std::vector<Shape> shapes{small_shapes().front(), latent_shapes()[1]};
  shapes[0].name = "llama_ahead";
  shapes[1].name = "deepseek_v3_ahead";
  for (Shape& shape : shapes) shape.config.n_tokens_ahead = 1;
  return shapes;
}

/// Returns a shape for each type except F32, with widths that are multiples of the type's quantization block.
inline std::vector<Shape> typed_shapes() {
  using core::DType;
  std::vector<Shape> shapes{{"f16", small_shapes()[1].config, DType::F16},
                            {"bf16", small_shapes()[1].config, DType::BF16}};
  for (const DType type : {DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::Q4_K, DType::Q5_K,
                           DType::Q6_K, DType::MXFP4}) {
    shapes.push_back({std::string(core::info(type).name),
                      config_of(core::Family::Llama, 37, 256, 1, 4, 2, 512, 96, type != DType::Q5_0), type});
  }
  return shapes;
}

inline std::vector<Shape> all_shapes() {
  auto shapes = small_shapes();
  // One layer whose dim and hidden_dim exceed a chunk (1024), so that sums have two chunks.
  shapes.push_back({"wide", config_of(core::Family::Llama, 40, 1040, 1, 13, 1, 1030, 96, true)});
  for (const auto& more : {typed_shapes(), expert_shapes(), part_shapes(), latent_shapes()}) {
    shapes.insert(shapes.end(), more.begin(), more.end());
  }
  return shapes;
}

inline std::string shape_name(const ::testing::TestParamInfo<Shape>& info) { return info.param.name; }

/// Returns random weights: matrices whose outputs have about the magnitude of their inputs, norms around 1, biases
/// around 0.
inline core::Weights random_weights(const core::ModelConfig& config, uint64_t seed) {
  core::Weights weights{.config = config, .tensors = {}};
  for (const core::TensorSpec& spec : core::tensor_manifest(config)) {
    const bool is_vector = !spec.is_matrix();
    const bool is_norm = is_vector && !spec.gguf_name.ends_with(".bias") && spec.role != core::Role::SharedGate;
    const double scale = is_vector ? 0.3 : std::sqrt(3.0 / static_cast<double>(spec.shape.back()));
    auto values = random_floats(static_cast<size_t>(spec.elements()), core::random_bits(seed, weights.tensors.size()),
                                spec.role == core::Role::TokenEmbedding ? 1.0 : scale);
    if (is_norm) {
      for (float& value : values) value += 1.0F;
    }
    weights.tensors.push_back(std::move(values));
  }
  return weights;
}

/// Returns the values of the tensor with this role and layer; -1: in no layer.
inline std::vector<float>& values_of(core::Weights& weights, core::Role role, int64_t layer = -1) {
  const auto manifest = core::tensor_manifest(weights.config);
  const auto found =
      std::ranges::find_if(manifest, [&](const core::TensorSpec& s) { return s.role == role && s.layer == layer; });
  return weights.tensors.at(static_cast<size_t>(found - manifest.begin()));
}

/// Returns n random blocks of `type`, with values mostly in [-scale, scale]. Quants and sub-block scales have random
/// bits.
inline std::vector<std::byte> random_blocks(core::DType type, size_t n, uint64_t seed, double scale) {
  using core::DType;
  const core::DTypeInfo& t = core::info(type);
  std::vector<std::byte> blocks(n * t.block_bytes);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(core::random_below(seed, i, 256));
  const core::QuantInfo& q = *core::quant_info(type);
  const double steps = std::ldexp(1.0, static_cast<int>(q.bits) - 1);                // quants on each side of zero
  const double of_scales = type == DType::Q6_K ? 64.0 : q.byte_scales ? 63.0 : 1.0;  // largest sub-block scale
  const auto put = [&](std::byte* at, double value) {
    const uint16_t half = core::float_to_f16(static_cast<float>(value));
    std::memcpy(at, &half, sizeof half);
  };
  for (size_t b = 0; b < n; ++b) {
    std::byte* block = blocks.data() + b * t.block_bytes;
    if (q.fp4) {  // an MXFP4 value is at most 6 times a power of two
      const double exponent =
          std::round(std::log2(scale / 6.0)) + static_cast<double>(core::random_below(seed + 1, b, 2));
      block[0] = static_cast<std::byte>(127 + static_cast<int>(exponent));
      continue;
    }
    const double d = scale / steps / of_scales * (0.5 + core::random_uniform(seed + 1, b));
    put(type == DType::Q6_K ? block + 208 : block, d);
    if (q.minimums) put(block + 2, q.byte_scales ? d * steps : -d * steps);
  }
  return blocks;
}

/// Returns a model in memory with random weights of the shape's type.
inline core::StoredModel random_model_of(const Shape& shape, uint64_t seed = 7) {
  const auto weights = random_weights(shape.config, seed);
  const auto manifest = core::tensor_manifest(shape.config);
  const bool blocks = core::quant_info(shape.type) != nullptr;
  const core::TensorStream stream = core::stream_as(weights.views(), blocks ? core::DType::F32 : shape.type);
  core::StoredModel model{
      .path = "random weights", .format = core::ModelFormat::Gguf, .config = shape.config, .tensors = weights.views()};
  for (size_t i = 0; i < manifest.size(); ++i) {
    std::vector<std::byte> values;
    if (blocks && manifest[i].is_matrix()) {
      const auto n = static_cast<size_t>(manifest[i].elements()) / core::info(shape.type).block_elements;
      const bool embedding = manifest[i].role == core::Role::TokenEmbedding;
      values = random_blocks(shape.type, n, core::random_bits(seed, i),
                             embedding ? 1.0 : std::sqrt(3.0 / static_cast<double>(manifest[i].shape.back())));
    } else {
      const auto bytes = stream.bytes(i);
      values.assign(bytes.begin(), bytes.end());
    }
    const auto own = std::make_shared<const std::vector<std::byte>>(std::move(values));
    if (manifest[i].is_matrix()) model.tensors[i].type = shape.type;
    model.tensors[i].bytes = *own;
    model.storage.push_back(own);
  }
  return model;
}

/// Returns a model in memory with these weights.
inline core::StoredModel model_from(const core::Weights& weights) {
  const auto own = std::make_shared<const core::Weights>(weights);
  return {.path = "random weights",
          .format = core::ModelFormat::Gguf,
          .config = weights.config,
          .tensors = own->views(),
          .storage = {own}};
}

inline core::StoredModel random_model(const core::ModelConfig& config, uint64_t seed = 7) {
  return model_from(random_weights(config, seed));
}

/// Returns a model in which every row has logits that are NaN.
inline core::StoredModel damaged_model(const core::ModelConfig& config) {
  core::Weights weights = random_weights(config, 7);
  weights.tensors.back()[5] = std::nanf("");
  return model_from(weights);
}

/// Returns all values of a matrix, row by row.
inline std::vector<float> floats_of(const Matrix& matrix) {
  std::vector<float> values(matrix.n_out * matrix.k);
  for (size_t r = 0; r < matrix.n_out; ++r) matrix.row(r, std::span(values).subspan(r * matrix.k, matrix.k));
  return values;
}

inline std::vector<Row> rows_of(SequenceId sequence, std::span<const int32_t> tokens, int64_t first = 0,
                                bool wants_logits = true) {
  std::vector<Row> rows;
  for (const int32_t token : tokens) {
    rows.push_back({.token = token, .sequence = sequence, .position = first++, .wants_logits = wants_logits});
  }
  return rows;
}

/// Runs all rows, at most kMaxRows in a step. Returns the logits [rows that request them, vocab_size].
inline std::vector<float> run(Runner& runner, std::span<const Row> rows, const Observer& observer = {}) {
  std::vector<float> logits;
  do {
    const auto step = rows.first(std::min(rows.size(), kMaxRows));
    const auto some = runner.forward(step, observer).logits;
    logits.insert(logits.end(), some.begin(), some.end());
    std::ranges::fill(some, std::nanf(""));  // to detect logits that the next step doesn't write
    rows = rows.subspan(step.size());
  } while (!rows.empty());
  return logits;
}

/// Returns the logits [tokens, vocab_size] of one sequence that runs on a new CPU backend, in as few steps as possible.
/// Tests use them as the reference.
inline std::vector<float> alone(const core::StoredModel& model, std::span<const int32_t> tokens, size_t n_threads = 1,
                                const kernels::Kernels* kernels = nullptr, CacheType cache_type = CacheType::F32) {
  Cpu cpu({.n_threads = n_threads, .kernels = kernels});
  Runner runner(model, cpu, {.type = cache_type});
  return run(runner, rows_of(runner.cache().add_sequence(), tokens));
}

}  // namespace folio::infer::test
