// Tests core/formats/gguf_model.h: which keys and tensors are read and written for latent attention and MTP modules
// (multi-token prediction), and errors that name unsupported features. formats_oracle_test.py and tests/apps compare
// files with those of other packages.
#include "core/formats/gguf_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/file_io.h"
#include "core/formats/family_files.h"
#include "core/rope_scaling.h"
#include "tests/core/model_support.h"

namespace folio::core {
namespace {

using test::kGrouped;
using test::numbered_weights;
using test::several_shapes;
using test::TempDir;

// Returns a model's GGUF file after `change` edited its metadata and tensors.
template <typename Change>
GgufFile changed_gguf(const std::filesystem::path& path, const Weights& weights, Change change) {
  GgufMetadata metadata = config_to_gguf(weights.config, "test");
  std::vector<TensorView> tensors = weights.views();
  change(metadata, tensors);
  write_file_atomically(path, [&](OutputFile& out) { write_gguf(out, metadata, tensors); });
  return GgufFile(path);
}

// Returns the GGUF file of a model with the configuration kGrouped after `change` edited the tensors.
template <typename Change>
GgufFile changed_tensors(const TempDir& dir, Change change) {
  return changed_gguf(dir / "m", numbered_weights(kGrouped),
                      [&](auto&, std::vector<TensorView>& tensors) { change(tensors); });
}

void set(GgufMetadata& metadata, const std::string& key, GgufValue value) {
  std::erase_if(metadata, [&](const auto& entry) { return entry.first == key; });
  metadata.emplace_back(key, std::move(value));
}

std::vector<std::shared_ptr<const void>> copies;  // keeps alive the copies that manifest_tensors() makes

TEST(ModelGguf, RoundTripKeepsLatentAttention) {
  const TempDir dir;
  for (const ModelConfig& config : test::latent_shapes()) {
    const Weights weights = numbered_weights(config);
    write_gguf_model(dir / "m.gguf", weights.config, weights.views(), "a name", {});
    const StoredModel model = read_gguf_model(dir / "m.gguf");
    EXPECT_EQ(model.config, config) << describe_difference(config, model.config);
    EXPECT_EQ(to_weights(model).tensors, weights.tensors);
    EXPECT_TRUE(model.storage.empty());
    const GgufFile file(dir / "m.gguf");
    EXPECT_EQ(file.string("general.architecture"), "deepseek2");
    EXPECT_EQ(file.integer("deepseek2.attention.head_count_kv"), 1);
    EXPECT_EQ(file.integer("deepseek2.attention.key_length"), 14);
    EXPECT_EQ(file.integer("deepseek2.attention.value_length"), 8);
    EXPECT_EQ(file.integer("deepseek2.attention.q_lora_rank"), config.q_lora_rank);
    EXPECT_EQ(file.integer("deepseek2.leading_dense_block_count"), config.n_experts > 0 ? 1 : 2);
  }
}

TEST(ModelGguf, LostInGgufNamesWhatTheFormatCannotStore) {
  for (ModelConfig config : test::latent_shapes()) {
    EXPECT_EQ(lost_in_gguf(config), "");
    if (config.n_experts == 0) continue;
    config.shared_dim = 0;
    EXPECT_TRUE(test::contains(lost_in_gguf(config), "deepseek2 without shared experts"));
  }
  ModelConfig olmoe = kGrouped;
  test::add_experts(olmoe, Family::Olmoe, 4, olmoe.hidden_dim);
  EXPECT_TRUE(test::contains(lost_in_gguf(olmoe), "olmoe only with as many key/value heads as heads"));
  ModelConfig config = kGrouped;
  EXPECT_EQ(lost_in_gguf(config), "");
  config.family = Family::Mistral;
  config.sliding_window = 20;
  EXPECT_TRUE(test::contains(lost_in_gguf(config), "a sliding window; its context length is 20 instead of 33"));
}

// Without the keys, llama.cpp assumes a window of 4096 and soft caps of 50 and 30 for Gemma 2, and rejects gpt-oss.
TEST(ModelGguf, WritesAndReadsTheDefaultsOfLlamaCpp) {
  const TempDir dir;
  ModelConfig gemma = kGrouped;
  gemma.family = Family::Gemma2;
  gemma.context_length = 8192;
  gemma.window_period = 2;
  gemma.embedding_scale = std::sqrt(static_cast<float>(gemma.dim));
  gemma.attention_cap = gemma.logit_cap = 20.0F;
  ModelConfig gpt = kGrouped;
  test::add_experts(gpt, Family::GptOss, 4, gpt.hidden_dim);
  for (const ModelConfig& config : {gemma, gpt}) {
    const std::string key = gguf_architecture(config.family) + ".attention.sliding_window";
    const Weights weights = numbered_weights(config);
    const GgufFile file = changed_gguf(dir / "m", weights, [](auto&, auto&) {});
    EXPECT_EQ(file.integer(key), config.context_length);
    EXPECT_EQ(config_from_gguf(file).sliding_window, 0);
    const GgufFile without = changed_gguf(dir / "m", weights, [&](GgufMetadata& metadata, auto&) {
      std::erase_if(metadata,
                    [&](const auto& entry) { return entry.first == key || entry.first.ends_with("capping"); });
    });
    const bool assumes = config.family == Family::Gemma2;
    EXPECT_EQ(config_from_gguf(without).sliding_window, assumes ? 4096 : 0);
    EXPECT_EQ(config_from_gguf(without).attention_cap, assumes ? 50.0F : 0.0F);
    EXPECT_EQ(config_from_gguf(without).logit_cap, assumes ? 30.0F : 0.0F);
    ModelConfig whole = config;
    whole.sliding_window = whole.context_length;
    EXPECT_EQ(as_in_gguf(whole).sliding_window, 0) << "as it is read";
  }
}

TEST(ModelGguf, RoundTripKeepsTheMtpModule) {
  const TempDir dir;
  for (const ModelConfig& config : test::ahead_shapes()) {
    const Weights weights = numbered_weights(config);
    write_gguf_model(dir / "m.gguf", weights.config, weights.views(), "a name", {});
    const StoredModel model = read_gguf_model(dir / "m.gguf");
    EXPECT_EQ(model.config, config) << describe_difference(config, model.config);
    EXPECT_EQ(to_weights(model).tensors, weights.tensors);
    const std::string architecture = config.latent() ? "deepseek2" : "llama";
    EXPECT_EQ(model.gguf->integer(architecture + ".block_count"), config.n_layers + 1);
    EXPECT_EQ(model.gguf->integer(architecture + ".nextn_predict_layers"), 1);
    const StoredModel without = with_layers(model, config.n_layers);
    EXPECT_EQ(without.tensors.size(), tensor_manifest(without.config).size());
    EXPECT_EQ(without.config.n_tokens_ahead, 0);
  }
}

TEST(ModelGguf, ReadsModulesOfOtherProgramsAndRejectsIncompleteOnes) {
  const TempDir dir;
  const Weights weights = numbered_weights(test::ahead_shapes().back());
  const auto error = [&](auto&& change) {
    static_cast<void>(changed_gguf(dir / "m", weights, change));
    return test::message_of(
        [&] { EXPECT_EQ(to_weights(read_gguf_model(dir / "m")).config.n_layers, weights.config.n_layers); });
  };
  const auto without = [](std::vector<TensorView>& tensors, std::string_view part) {
    std::erase_if(tensors, [&](const TensorView& t) { return t.name.find(part) != t.name.npos; });
  };
  EXPECT_EQ(error([](auto&, std::vector<TensorView>& tensors) {
              for (const char* copy : {"blk.2.nextn.embed_tokens.weight", "blk.2.nextn.shared_head_head.weight"}) {
                tensors.push_back(tensors.front());
                tensors.back().name = copy;
              }
            }),
            "");
  EXPECT_EQ(error([&](auto&, auto& tensors) { without(tensors, "blk.2."); }), "") << "as llama.cpp reads it";
  EXPECT_TRUE(test::contains(error([&](auto&, auto& tensors) { without(tensors, "hnorm"); }),
                             "tensor blk.2.nextn.hnorm.weight of shape [24] is missing"));
  EXPECT_TRUE(test::contains(error([&](auto& metadata, auto&) {
                               set(metadata, "llama.block_count", uint32_t{4});
                               set(metadata, "llama.nextn_predict_layers", uint32_t{2});
                             }),
                             "llama.nextn_predict_layers = 2 is not supported, expected 0 or 1"));
  EXPECT_TRUE(test::contains(error([&](auto&, auto& tensors) {
                               tensors.push_back(tensors.front());
                               tensors.back().name = "blk.2.nextn.other.weight";
                             }),
                             "unexpected tensor blk.2.nextn.other.weight"));
}

TEST(ModelGguf, RejectsYarnThatLatentAttentionCannotStore) {
  const TempDir dir;
  const ModelConfig c = test::latent_shapes()[1];
  std::vector<ModelConfig> bad(4, c);
  bad[0].rope_scaling.magnitude = 1.25F;
  for (size_t i = 1; i < bad.size(); ++i) bad[i].attention_scale = 0.0F;
  bad[2].rope_scaling = {.type = RopeScalingType::Linear, .factor = 4.0F};
  bad[3].rope_scaling = {.factor = 4.0F};
  for (const ModelConfig& one : bad) {
    EXPECT_ERROR(write_gguf_model(dir / "m.gguf", one, numbered_weights(one).views(), "a name", {}), "use --format hf");
  }
  const GgufFile file = changed_gguf(dir / "m", numbered_weights(c), [](GgufMetadata& metadata, auto&) {
    std::erase_if(metadata, [](const auto& entry) { return entry.first.ends_with("yarn_log_multiplier"); });
  });
  EXPECT_ERROR(config_from_gguf(file), "deepseek2.rope.scaling.yarn_log_multiplier");
}

TEST(ModelGguf, RejectsNegativeWidthsOfSharedExperts) {
  const TempDir dir;
  for (const ModelConfig& config : test::latent_shapes()) {
    if (config.n_experts == 0) continue;
    const GgufFile file = changed_gguf(dir / "m", numbered_weights(config), [](GgufMetadata& metadata, auto&) {
      set(metadata, "deepseek2.expert_feed_forward_length", std::numeric_limits<int64_t>::min());
    });
    EXPECT_ERROR(config_from_gguf(file), "2 shared experts of width -9223372036854775808");
  }
}

TEST(ModelGguf, RejectsKeysOfLatentAttentionThatItLacks) {
  const TempDir dir;
  const Weights weights = numbered_weights(test::latent_shapes()[1]);
  const auto with = [&](const std::string& key, GgufValue value) {
    return changed_gguf(dir / "m", weights, [&](auto& metadata, auto&) { set(metadata, "deepseek2." + key, value); });
  };
  const auto error = [&](const std::string& key, GgufValue value, const char* expected) {
    EXPECT_ERROR(config_from_gguf(with(key, value)), expected);
  };
  error("rope.scaling.yarn_log_multiplier", 0.0F, "yarn_log_multiplier = 0 is not supported");
  error("rope.scaling.attn_factor", 2.0F, "attn_factor = 2 is not supported, expected 1");
  error("attention.temperature_scale", 0.1F, "temperature_scale = 0.1 is not supported, expected 0");
  error("attention.temperature_length", uint32_t{8192}, "temperature_length = 8192 is not supported, expected 0");
  error("attention.key_length_mla", uint32_t{1U << 30}, "expected at most 131072");
  error("rope.dimension_count", uint32_t{9}, "heads have 9 elements, 9 of them with RoPE");
  EXPECT_EQ(config_from_gguf(with("attention.temperature_length", uint32_t{0})), weights.config);
  EXPECT_EQ(config_from_gguf(with("rope.scaling.attn_factor", 1.0F)), weights.config);
}

TEST(ModelGguf, YarnOfFactorOneLeavesTheScoresOfLatentAttention) {
  const TempDir dir;
  const Weights weights = numbered_weights(test::latent_shapes()[1]);
  const GgufFile file = changed_gguf(dir / "m", weights, [](GgufMetadata& metadata, auto&) {
    set(metadata, "deepseek2.rope.scaling.factor", 1.0F);
    set(metadata, "deepseek2.rope.scaling.yarn_log_multiplier", 0.1F);
  });
  EXPECT_EQ(config_from_gguf(file), test::latent_shapes()[0]);
}

// If a file has attn_kv_b as well as attn_k_b and attn_v_b, the latter are used only if they are 3-D, as in llama.cpp.
TEST(ModelGguf, UsesTheJoinedLatentMatrixOnlyWithoutItsParts) {
  const TempDir dir;
  const Weights weights = numbered_weights(test::latent_shapes()[0]);
  const auto manifest = tensor_manifest(weights.config);
  const auto is_part = [](const TensorSpec& spec) { return spec.role == Role::WkB || spec.role == Role::WvB; };
  for (const bool stacks : {true, false}) {
    std::vector<std::vector<float>> joined;
    const GgufFile file = changed_gguf(dir / "m", weights, [&](auto&, std::vector<TensorView>& tensors) {
      for (size_t i = 0; i < manifest.size(); ++i) {
        if (!is_part(manifest[i])) continue;
        if (!stacks) tensors[i].shape = {tensors[i].shape[0] * tensors[i].shape[1], tensors[i].shape[2]};
        if (manifest[i].role == Role::WvB) continue;
        const std::vector<int64_t> shape = manifest[i].hf_packed.shape;
        joined.emplace_back(static_cast<size_t>(shape[0] * shape[1]), -7.0F);
        tensors.push_back({.name = fmt::format("blk.{}.attn_kv_b.weight", manifest[i].layer),
                           .type = DType::F32,
                           .shape = shape,
                           .bytes = std::as_bytes(std::span(joined.back()))});
      }
    });
    const auto views = manifest_tensors(file, weights.config, copies);
    for (size_t i = 0; i < manifest.size(); ++i) {
      std::vector<float> expected = weights.tensors[i];
      if (!stacks && is_part(manifest[i])) std::ranges::fill(expected, -7.0F);
      EXPECT_EQ(to_floats(views[i]), expected) << manifest[i].gguf_name;
    }
  }
}

TEST(ModelGguf, MissingOptionalKeysUseTheFormatsDefaults) {
  const TempDir dir;
  const Weights weights = numbered_weights(several_shapes().back());
  const GgufFile file = changed_gguf(dir / "m", weights, [](GgufMetadata& metadata, auto&) {
    std::erase_if(metadata, [](const auto& entry) {
      return entry.first == "llama.attention.head_count_kv" || entry.first == "llama.rope.freq_base" ||
             entry.first == "llama.rope.dimension_count" || entry.first == "llama.vocab_size";
    });
    set(metadata, "llama.rope.scaling.type", std::string("none"));
    set(metadata, "llama.rope.scaling.factor", 1.0F);
    set(metadata, "llama.attention.key_length", uint32_t{6});
  });
  ModelConfig expected = weights.config;
  expected.rope_theta = 10000.0F;
  EXPECT_EQ(config_from_gguf(file), expected);
}

TEST(ModelGguf, RejectsUnsupportedValues) {
  const TempDir dir;
  const Weights weights = numbered_weights(kGrouped);
  const auto expect_rejected = [&](const std::string& key, GgufValue value, const std::string& part) {
    const GgufFile file =
        changed_gguf(dir / "m.gguf", weights, [&](GgufMetadata& metadata, auto&) { set(metadata, key, value); });
    test::expect_error([&] { static_cast<void>(config_from_gguf(file)); }, {part, "m.gguf"});
  };
  expect_rejected("general.architecture", std::string("qwen\x1B"), "the architecture is qwen\\x1B");
  expect_rejected("general.architecture", uint32_t{1}, "general.architecture");
  expect_rejected("llama.rope.dimension_count", uint32_t{4}, "RoPE over 4 of 6 dimensions");
  expect_rejected("llama.attention.key_length", uint32_t{8}, "RoPE over 6 of 8 dimensions");
  expect_rejected("llama.rope.scaling.attn_factor", 0.5F, "llama.rope.scaling.attn_factor = 0.5 is not supported");
  expect_rejected("llama.attention.causal", false, "llama.attention.causal = false");
  expect_rejected("llama.attention.sliding_window", uint32_t{4}, "llama.attention.sliding_window = 4");
  expect_rejected("llama.expert_count", uint32_t{8}, "llama.expert_used_count is missing");
  expect_rejected("llama.attention.value_length", uint32_t{8}, "llama.attention.value_length");
  expect_rejected("llama.rope.scaling.type", std::string("yarn"),
                  "requires llama.rope.scaling.factor, which is missing");
  expect_rejected("llama.rope.scaling.type", std::string("dynamic"), "RoPE scaling of type dynamic");
  expect_rejected("llama.rope.scaling.factor", 0.0F, "rope_scaling_factor is 0");
  expect_rejected("llama.rope.scale_linear", 0.5F, "rope_scaling_factor is 0.5");
  expect_rejected("llama.block_count", std::numeric_limits<int64_t>::min(),
                  "llama.block_count is -9223372036854775808");
  expect_rejected("llama.attention.head_count", uint32_t{5}, "not a multiple of n_heads 5");
  expect_rejected("llama.attention.head_count", GgufArray{std::vector<int32_t>{4, 2}}, "differs between layers");
  expect_rejected("llama.rope.freq_base", std::numeric_limits<float>::quiet_NaN(), "rope_theta is nan");
  expect_rejected("llama.rope.freq_base", uint32_t{10000}, "llama.rope.freq_base is not a floating-point number");
}

TEST(ModelGguf, RejectsMRopeOfGlm4) {
  const TempDir dir;
  ModelConfig glm = kGrouped;
  glm.family = Family::Glm4;
  const GgufFile file = changed_gguf(dir / "m", numbered_weights(glm), [](GgufMetadata& metadata, auto&) {
    set(metadata, "glm4.rope.dimension_sections", GgufArray{std::vector<int32_t>{1, 1, 1, 0}});
  });
  EXPECT_ERROR(config_from_gguf(file), "glm4.rope.dimension_sections (M-RoPE, as in GLM-4.1V) is not supported");
}

TEST(ModelGguf, ReadsValuesListedForEachLayer) {
  const TempDir dir;
  const Weights weights = numbered_weights(kGrouped);
  const GgufFile file = changed_gguf(dir / "m", weights, [](GgufMetadata& metadata, auto&) {
    set(metadata, "llama.attention.head_count", GgufArray{std::vector<int32_t>{4, 4}});
    set(metadata, "llama.attention.head_count_kv", GgufArray{std::vector<int32_t>{2, 2}});
    set(metadata, "llama.feed_forward_length", GgufArray{std::vector<int32_t>{20, 20}});
  });
  EXPECT_EQ(config_from_gguf(file), weights.config);
}

TEST(ModelGguf, NamesEachMissingKey) {
  const TempDir dir;
  const Weights weights = numbered_weights(kGrouped);
  for (const char* key : {"general.architecture", "llama.embedding_length", "llama.block_count",
                          "llama.attention.head_count", "llama.feed_forward_length", "llama.context_length"}) {
    const GgufFile file = changed_gguf(dir / "m", weights, [&](GgufMetadata& metadata, auto&) {
      std::erase_if(metadata, [&](const auto& entry) { return entry.first == key; });
    });
    EXPECT_ERROR(config_from_gguf(file), std::string("the metadata key ") + key + " is missing");
  }
}

TEST(ModelGguf, NamesAMissingEmbedding) {
  const TempDir dir;
  const GgufFile file = changed_tensors(dir, [](auto& tensors) { tensors.erase(tensors.begin()); });
  EXPECT_ERROR(config_from_gguf(file), "token_embd.weight is missing");
}

TEST(ManifestTensors, NamesAMissingTensorAndItsShape) {
  const TempDir dir;
  const auto manifest = tensor_manifest(kGrouped);
  for (const size_t i : {size_t{3}, manifest.size() - 1}) {
    const GgufFile file =
        changed_tensors(dir, [&](auto& tensors) { tensors.erase(tensors.begin() + static_cast<ptrdiff_t>(i)); });
    EXPECT_ERROR(manifest_tensors(file, kGrouped, copies),
                 "tensor " + manifest[i].gguf_name + " of shape " + shape_string(manifest[i].shape) + " is missing");
  }
}

TEST(ManifestTensors, NamesAnExtraTensor) {
  const TempDir dir;
  const std::vector<float> bias(24);
  const GgufFile file = changed_tensors(dir, [&](auto& tensors) {
    tensors.insert(
        tensors.begin() + 5,
        {.name = "blk.0.attn_q.bias", .type = DType::F32, .shape = {24}, .bytes = std::as_bytes(std::span(bias))});
  });
  EXPECT_ERROR(manifest_tensors(file, kGrouped, copies),
               "llama models with biases (blk.0.attn_q.bias) are not supported");
}

TEST(ManifestTensors, ErrorsShowActualAndExpectedShape) {
  const TempDir dir;
  const GgufFile file = changed_tensors(dir, [](auto& tensors) { tensors[3].shape = {24, 12}; });
  EXPECT_ERROR(manifest_tensors(file, kGrouped, copies),
               "tensor blk.0.attn_k.weight has shape [24, 12], expected [12, 24]");
}

TEST(ManifestTensors, FollowsTheManifestsOrder) {
  const TempDir dir;
  const GgufFile file = changed_tensors(dir, [](auto& tensors) { std::reverse(tensors.begin(), tensors.end()); });
  const auto manifest = tensor_manifest(kGrouped);
  const auto views = manifest_tensors(file, kGrouped, copies);
  ASSERT_EQ(views.size(), manifest.size());
  for (size_t i = 0; i < views.size(); ++i) EXPECT_EQ(views[i].name, manifest[i].gguf_name);
}

TEST(GgufModel, NamesATensorOfUnsupportedType) {
  const TempDir dir;
  const GgufFile file = changed_tensors(dir, [](auto& tensors) { tensors[1].type = DType::I32; });
  EXPECT_ERROR(read_gguf_model(file.path()), "m: tensor blk.0.attn_norm.weight has type I32, expected F32, F16, BF16");
}

// GGUF files of other programs store only RoPE's frequency factors. The other parameters default to Llama 3.1's.
TEST(GgufModel, RopeFactorsAloneImplyLlama3Parameters) {
  ModelConfig config{.vocab_size = 11, .dim = 128, .n_layers = 1, .n_heads = 2, .n_kv_heads = 1, .hidden_dim = 20};
  config.rope_theta = 500000.0F;
  const auto written = [&](const RopeScaling& scaling, const std::filesystem::path& path) {
    ModelConfig scaled = config;
    scaled.rope_scaling = scaling;
    const std::vector<double> exact = rope_factors(scaled);
    const std::vector<float> factors(exact.begin(), exact.end());
    const Weights weights = numbered_weights(config);
    auto tensors = weights.views();
    tensors.push_back({.name = "rope_freqs.weight",
                       .type = DType::F32,
                       .shape = {static_cast<int64_t>(factors.size())},
                       .bytes = std::as_bytes(std::span(factors))});
    write_file_atomically(path, [&](OutputFile& out) { write_gguf(out, config_to_gguf(config, "name"), tensors); });
  };
  const test::TempDir dir;
  const RopeScaling published{.factor = 32.0F};
  written(published, dir / "m.gguf");
  EXPECT_EQ(read_gguf_model(dir / "m.gguf").config.rope_scaling, published);
  written({.factor = 32.0F, .low_freq_factor = 2.0F, .high_freq_factor = 4.0F, .original_context = 4096},
          dir / "other.gguf");
  EXPECT_ERROR(read_gguf_model(dir / "other.gguf"), "rope_freqs.weight does not match Llama 3's formula: element");
  config.rope_scaling = {.type = RopeScalingType::Linear, .factor = 2.0F};
  written(published, dir / "both.gguf");
  EXPECT_ERROR(read_gguf_model(dir / "both.gguf"), "rope_freqs.weight with RoPE scaling of type linear");
}

}  // namespace
}  // namespace folio::core
