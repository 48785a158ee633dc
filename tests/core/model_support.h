// Defines small models for the tests of model files: configurations of several shapes and families, and weights.
#pragma once

#include <utility>
#include <vector>

#include "core/formats/hf_model.h"
#include "core/rope_scaling.h"
#include "core/weights.h"
#include "tests/core/model_shapes.h"
#include "tests/core/support.h"

namespace folio::core::test {

// A Llama with unusual sizes and grouped queries. The rows of its matrices don't fill whole cache lines.
inline const ModelConfig kGrouped{.vocab_size = 11,
                                  .dim = 24,
                                  .n_layers = 2,
                                  .n_heads = 4,
                                  .n_kv_heads = 2,
                                  .hidden_dim = 20,
                                  .context_length = 33,
                                  .rope_theta = 500000.0F,
                                  .norm_eps = 1e-6F,
                                  .tie_embeddings = true};

inline std::vector<ModelConfig> several_shapes() {
  ModelConfig untied = kGrouped;
  untied.tie_embeddings = false;
  ModelConfig multi_query = untied;
  multi_query.n_kv_heads = 1;
  multi_query.rope_theta = 10000.1F;
  ModelConfig plain = kGrouped;
  plain.n_kv_heads = 4;
  plain.n_layers = 1;
  plain.norm_eps = 1e-5F;
  return {kGrouped, untied, multi_query, plain};
}

/// Returns configurations with latent attention, with and without low-rank queries, expert groups and YaRN.
inline std::vector<ModelConfig> latent_shapes() {
  std::vector<ModelConfig> shapes;
  for (const Family family : {Family::Youtu, Family::DeepseekV2, Family::DeepseekV3}) {
    ModelConfig c = kGrouped;
    c.family = family;
    add_latent(c, {.kv_rank = 8, .query_rank = family == Family::DeepseekV2 ? 0 : 5, .nope = 3, .rope = 6, .value = 7});
    if (!info(family).mixture.none) {
      add_experts(c, family, 4, 4);
      c.shared_dim = 8;
      c.dense_layers = 1;
      c.expert_groups = 2;
      c.route_scale = 2.5F;
    }
    shapes.push_back(c);
    for (const double mscale : {0.707, 1.0, 0.7071068, 3.25}) {
      c.rope_scaling = {.type = RopeScalingType::Yarn,
                        .factor = 40.0F,
                        .low_freq_factor = 1.0F,
                        .high_freq_factor = 32.0F,
                        .original_context = 16};
      c.attention_scale = latent_score_scale(c, mscale);
      shapes.push_back(c);
    }
  }
  return shapes;
}

/// Returns kGrouped and latent_shapes(), each with an MTP module (multi-token prediction) added.
inline std::vector<ModelConfig> ahead_shapes() {
  std::vector<ModelConfig> shapes = latent_shapes();
  shapes.push_back(kGrouped);
  for (ModelConfig& c : shapes) c.n_tokens_ahead = 1;
  return shapes;
}

/// Returns the configurations of several_shapes() with llama2.c's rope_theta and norm_eps.
inline std::vector<ModelConfig> llama2c_shapes() {
  std::vector<ModelConfig> shapes = several_shapes();
  for (ModelConfig& config : shapes) {
    config.rope_theta = 10000.0F;
    config.norm_eps = 1e-5F;
  }
  return shapes;
}

/// Returns weights of both signs, no two of which are equal.
inline Weights numbered_weights(const ModelConfig& config) {
  Weights weights{.config = config, .tensors = {}};
  float next = 1.0F;
  for (const TensorSpec& spec : tensor_manifest(config)) {
    std::vector<float> values(static_cast<size_t>(spec.elements()));
    for (float& value : values) {
      next += 1.0F;
      value = (static_cast<int64_t>(next) % 3 == 0 ? -next : next) / 7.0F;
    }
    weights.tensors.push_back(std::move(values));
  }
  return weights;
}

/// Writes a Hugging Face directory in which one token is both BOS and EOS.
inline void write_hf_directory(const std::filesystem::path& directory, const Weights& weights, int64_t end_of_text) {
  write_hf_model(directory, weights.config, weights.views(), end_of_text, end_of_text);
}

/// Returns a copy of each tensor's bytes, to compare before and after a conversion.
inline std::vector<std::string> bytes_of(const std::vector<TensorView>& tensors) {
  std::vector<std::string> all;
  for (const TensorView& t : tensors) {
    all.emplace_back(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
  }
  return all;
}

}  // namespace folio::core::test
