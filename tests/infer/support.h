// Helpers for the engine's tests: small random models of many shapes, input rows, and bitwise comparison. All random
// values depend only on a seed, so failures are reproducible.
#pragma once

#include <gtest/gtest.h>

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
#include "core/formats/model_files.h"
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
  bool in_memory = false;               ///< true if a GGUF can't store the configuration
};

inline void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

/// Returns a shape of one layer whose dim and hidden_dim exceed a chunk (1024), so that sums have two chunks.
inline Shape wide_shape() {
  return {"wide",
          {.vocab_size = 40,
           .dim = 1040,
           .n_layers = 1,
           .n_heads = 13,
           .n_kv_heads = 1,
           .hidden_dim = 1030,
           .context_length = 96,
           .tie_embeddings = true}};
}

/// Returns small models without experts: Llamas, and families with biases, head norms and sliding windows.
inline std::vector<Shape> small_shapes() {
  using core::Family;
  struct Sizes {
    const char* name;
    Family family;
    int64_t vocab_size, dim, n_layers, n_heads, n_kv_heads, hidden_dim, context_length;
    bool tied;
  };
  std::vector<Shape> shapes;
  for (const Sizes& s : {Sizes{"mha_tied", Family::Llama, 50, 64, 2, 4, 4, 96, 128, true},
                         {"gqa_head10_untied", Family::Llama, 37, 60, 2, 6, 2, 33, 100, false},
                         {"mqa_head2_tied", Family::Llama, 11, 10, 3, 5, 1, 7, 70, true},
                         {"mha_head6_untied", Family::Llama, 29, 18, 1, 3, 3, 33, 130, false},
                         {"mqa_head48_tied", Family::Llama, 65, 96, 2, 2, 1, 81, 96, true},
                         {"gqa_head80_untied", Family::Llama, 66, 320, 1, 4, 2, 101, 90, false},
                         {"qwen2", Family::Qwen2, 31, 36, 2, 6, 2, 33, 100, true},
                         {"qwen3_wide_heads", Family::Qwen3, 31, 24, 2, 4, 2, 40, 100, false},
                         {"mistral_window40", Family::Mistral, 31, 48, 2, 6, 2, 40, 130, false},
                         {"qwen2_window3", Family::Qwen2, 31, 64, 3, 2, 2, 20, 90, true}}) {
    shapes.push_back({s.name,
                      {.family = s.family,
                       .vocab_size = s.vocab_size,
                       .dim = s.dim,
                       .n_layers = s.n_layers,
                       .n_heads = s.n_heads,
                       .n_kv_heads = s.n_kv_heads,
                       .hidden_dim = s.hidden_dim,
                       .context_length = s.context_length,
                       .tie_embeddings = s.tied}});
  }
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
  const core::ModelConfig mixtral{.family = core::Family::Mixtral,
                                  .vocab_size = 31,
                                  .dim = 36,
                                  .n_layers = 2,
                                  .n_heads = 6,
                                  .n_kv_heads = 2,
                                  .hidden_dim = 21,
                                  .n_experts = 5,
                                  .experts_per_token = 2,
                                  .expert_dim = 21,
                                  .normalize_routes = true,
                                  .context_length = 100,
                                  .tie_embeddings = false};
  const core::ModelConfig qwen2{.family = core::Family::Qwen2Moe,
                                .vocab_size = 31,
                                .dim = 48,
                                .n_layers = 2,
                                .n_heads = 4,
                                .n_kv_heads = 2,
                                .hidden_dim = 40,
                                .n_experts = 20,
                                .experts_per_token = 3,
                                .expert_dim = 34,
                                .shared_dim = 27,
                                .context_length = 100,
                                .tie_embeddings = true};
  const core::ModelConfig dots{.family = core::Family::Dots1,
                               .vocab_size = 31,
                               .dim = 64,
                               .n_layers = 3,
                               .n_heads = 4,
                               .n_kv_heads = 2,
                               .head_dim = 18,
                               .hidden_dim = 40,
                               .n_experts = 12,
                               .experts_per_token = 4,
                               .expert_dim = 17,
                               .shared_dim = 34,
                               .dense_layers = 1,
                               .expert_groups = 4,
                               .groups_per_token = 2,
                               .normalize_routes = true,
                               .route_scale = 2.5F,
                               .context_length = 100,
                               .tie_embeddings = true};
  const core::ModelConfig olmoe{.family = core::Family::Olmoe,
                                .vocab_size = 37,
                                .dim = 64,
                                .n_layers = 2,
                                .n_heads = 4,
                                .n_kv_heads = 2,
                                .hidden_dim = 96,
                                .n_experts = 6,
                                .experts_per_token = 2,
                                .expert_dim = 96,
                                .context_length = 96,
                                .tie_embeddings = false};
  core::ModelConfig gpt_oss{.family = core::Family::GptOss,
                            .vocab_size = 31,
                            .dim = 64,
                            .n_layers = 2,
                            .n_heads = 4,
                            .n_kv_heads = 2,
                            .head_dim = 18,
                            .hidden_dim = 32,
                            .n_experts = 6,
                            .experts_per_token = 2,
                            .expert_dim = 32,
                            .normalize_routes = true,
                            .context_length = 100,
                            .sliding_window = 21,
                            .window_period = 2,
                            .tie_embeddings = false};
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
  core::ModelConfig gemma2{.family = core::Family::Gemma2,
                           .vocab_size = 31,
                           .dim = 36,
                           .n_layers = 3,
                           .n_heads = 4,
                           .n_kv_heads = 2,
                           .head_dim = 18,
                           .hidden_dim = 33,
                           .context_length = 100,
                           .sliding_window = 21,
                           .window_period = 2,
                           .tie_embeddings = true,
                           .embedding_scale = 6.0F,
                           .attention_cap = 3.0F,
                           .logit_cap = 2.0F};
  core::ModelConfig gemma3 = gemma2;
  gemma3.family = core::Family::Gemma3;
  gemma3.attention_cap = gemma3.logit_cap = 0.0F;
  gemma3.rope_theta = 1e6F;
  gemma3.local_rope_theta = 1e4F;
  const core::ModelConfig olmo2{.family = core::Family::Olmo2,
                                .vocab_size = 31,
                                .dim = 48,
                                .n_layers = 2,
                                .n_heads = 4,
                                .n_kv_heads = 2,
                                .hidden_dim = 40,
                                .context_length = 100,
                                .tie_embeddings = false};
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
  const core::ModelConfig v2{.family = core::Family::DeepseekV2,
                             .vocab_size = 31,
                             .dim = 48,
                             .n_layers = 2,
                             .n_heads = 5,
                             .n_kv_heads = 5,
                             .head_dim = 17,
                             .kv_lora_rank = 26,
                             .qk_nope_head_dim = 11,
                             .qk_rope_head_dim = 6,
                             .v_head_dim = 9,
                             .hidden_dim = 40,
                             .context_length = 100,
                             .rope_theta = 500.0F,
                             .tie_embeddings = false};
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
  return {{"deepseek_v2", v2, core::DType::F32, true},
          {"deepseek_v3", v3, core::DType::F32, true},
          {"deepseek_v2_f16", v2, core::DType::F16, true},
          {"deepseek_v2_Q8_0", blocks, core::DType::Q8_0, true}};
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
                      {.vocab_size = 37,
                       .dim = 256,
                       .n_layers = 1,
                       .n_heads = 4,
                       .n_kv_heads = 2,
                       .hidden_dim = 512,
                       .context_length = 96,
                       .tie_embeddings = type != DType::Q5_0},
                      type});
  }
  return shapes;
}

inline std::vector<Shape> all_shapes() {
  auto shapes = small_shapes();
  shapes.push_back(wide_shape());
  for (Shape& shape : typed_shapes()) shapes.push_back(std::move(shape));
  for (Shape& shape : expert_shapes()) shapes.push_back(std::move(shape));
  for (Shape& shape : part_shapes()) shapes.push_back(std::move(shape));
  for (Shape& shape : latent_shapes()) shapes.push_back(std::move(shape));
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

/// Returns the bytes of each tensor, in the manifest's order, of a model with random weights. Matrices have the shape's
/// type.
inline std::vector<std::vector<std::byte>> random_tensors(const Shape& shape, uint64_t seed) {
  const auto weights = random_weights(shape.config, seed);
  const auto manifest = core::tensor_manifest(shape.config);
  const bool blocks = core::quant_info(shape.type) != nullptr;
  const core::TensorStream stream = core::stream_as(weights.views(), blocks ? core::DType::F32 : shape.type);
  std::vector<std::vector<std::byte>> tensors;
  for (size_t i = 0; i < manifest.size(); ++i) {
    if (blocks && manifest[i].is_matrix()) {
      const auto n = static_cast<size_t>(manifest[i].elements()) / core::info(shape.type).block_elements;
      const bool embedding = manifest[i].role == core::Role::TokenEmbedding;
      tensors.push_back(
          random_blocks(shape.type, n, core::random_bits(seed, i),
                        embedding ? 1.0 : std::sqrt(3.0 / static_cast<double>(manifest[i].shape.back()))));
    } else {
      const auto bytes = stream.bytes(i);
      tensors.emplace_back(bytes.begin(), bytes.end());
    }
  }
  return tensors;
}

/// Returns a model with random weights of the shape's type. It is read from a file unless shape.in_memory is set.
inline core::StoredModel random_model_of(const Shape& shape, uint64_t seed = 7) {
  auto tensors = random_tensors(shape, seed);
  auto views = random_weights(shape.config, seed).views();
  const auto manifest = core::tensor_manifest(shape.config);
  for (size_t i = 0; i < views.size(); ++i) {
    if (manifest[i].is_matrix()) views[i].type = shape.type;
    views[i].bytes = tensors[i];
  }
  if (shape.in_memory) {
    core::StoredModel model{.path = "random weights",
                            .format = core::ModelFormat::Gguf,
                            .config = shape.config,
                            .tensors = views,
                            .storage = {},
                            .gguf = {}};
    for (size_t i = 0; i < views.size(); ++i) {
      auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(tensors[i]));
      model.tensors[i].bytes = *bytes;
      model.storage.push_back(std::move(bytes));
    }
    return model;
  }
  const TempDir folder;
  core::write_gguf_model(folder / "model.gguf", shape.config, views, "test", {});
  core::StoredModel model = core::read_model(folder / "model.gguf");
  model.config = shape.config;  // a GGUF can't store every field
  return model;
}

inline core::StoredModel model_in_memory(const core::Weights& weights) {
  const auto own = std::make_shared<const core::Weights>(weights);
  return {.path = "random weights",
          .format = core::ModelFormat::Gguf,
          .config = weights.config,
          .tensors = own->views(),
          .storage = {own}};
}

/// Returns all values of a matrix, row by row.
inline std::vector<float> floats_of(const Matrix& matrix) {
  std::vector<float> values(matrix.n_out * matrix.k);
  for (size_t r = 0; r < matrix.n_out; ++r) matrix.row(r, std::span(values).subspan(r * matrix.k, matrix.k));
  return values;
}

/// Returns a model with these weights: in memory if it has latent attention, else memory-mapped from a temporary GGUF
/// file, which is deleted before this function returns.
inline core::StoredModel model_from(const core::Weights& weights) {
  if (weights.config.latent()) return model_in_memory(weights);
  const TempDir folder;
  core::write_gguf_model(folder / "model.gguf", weights, "test", {});
  core::StoredModel model = core::read_model(folder / "model.gguf");
  model.config = weights.config;  // a GGUF file can't store every field of the configuration
  return model;
}

inline core::StoredModel random_model(const core::ModelConfig& config, uint64_t seed = 7) {
  return model_from(random_weights(config, seed));
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
