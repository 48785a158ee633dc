// Tests reading and writing config.json (core/formats/hf_model.h): scales and RoPE scaling are kept, and errors name
// the setting that is missing, invalid or not supported.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/formats/hf_model.h"
#include "tests/core/model_support.h"

namespace folio::core {
namespace {

using test::kGrouped;
using test::TempDir;

class HfConfig : public ::testing::Test {
 protected:
  // Reads the config.json of `config`, changed by the JSON merge patch `patch`, where null removes a key.
  ModelConfig read(const std::string& patch, const ModelConfig& config = kGrouped) const {
    auto json = nlohmann::json::parse(config_to_hf_json(config, 10, 10));
    json.merge_patch(nlohmann::json::parse(patch));
    test::write_bytes(dir_ / "config.json", json.dump());
    return config_from_hf_json(dir_ / "config.json");
  }
  TempDir dir_;
};

TEST_F(HfConfig, RejectsValuesTheFamilysFilesCannotStore) {
  ModelConfig config = kGrouped;
  config.logit_cap = 3.0F;
  EXPECT_ERROR(config_to_hf_json(config, 3, 3), "logit_cap is 3, but files of the family llama can only store 0");
  config = kGrouped;
  config.rope_dims = 4;
  EXPECT_ERROR(config_to_hf_json(config, 3, 3), "rope_dims is 4, but files of the family llama can only store");
  config = kGrouped;
  config.family = Family::Gemma2;  // always multiplies embeddings by sqrt(dim), without a field for the scale
  EXPECT_ERROR(config_to_hf_json(config, 3, 3), "embedding_scale is 1, but files of the family gemma2 can only store");
}

TEST_F(HfConfig, RoundTripKeepsScalesExactly) {
  for (const float scale : {0.1F, 0.3F, 1.0F / 3.0F, 0.7071068F, 1.7F}) {
    ModelConfig gemma = kGrouped;
    gemma.family = Family::Gemma2;
    gemma.embedding_scale = std::sqrt(static_cast<float>(gemma.dim));
    gemma.window_period = 2;
    gemma.attention_scale = scale;
    ModelConfig granite = kGrouped;
    granite.family = Family::Granite;
    granite.attention_scale = granite.logit_scale = granite.residual_scale = scale;
    ModelConfig glm = kGrouped;
    glm.family = Family::Glm;
    glm.rope_dims = 2;
    for (const ModelConfig& config : {gemma, granite, glm}) {
      test::write_bytes(dir_ / "config.json", config_to_hf_json(config, 3, 3));
      EXPECT_EQ(config_from_hf_json(dir_ / "config.json"), config)
          << describe_difference(config, config_from_hf_json(dir_ / "config.json"));
    }
  }
}

TEST_F(HfConfig, MissingKeysUseTransformersDefaults) {
  ModelConfig expected = kGrouped;
  expected.n_kv_heads = 4;
  expected.rope_theta = 10000.0F;
  expected.tie_embeddings = false;
  EXPECT_EQ(read(R"({"num_key_value_heads": null, "rope_theta": null, "tie_word_embeddings": null, "head_dim": null,
                     "hidden_act": null, "attention_bias": null, "mlp_bias": null})"),
            expected);
}

TEST_F(HfConfig, ReadsLlama3RopeScalingOfAllTransformersVersions) {
  const RopeScaling expected{
      .factor = 32.0F, .low_freq_factor = 1.5F, .high_freq_factor = 5.0F, .original_context = 4096};
  const std::string numbers =
      R"("factor": 32.0, "low_freq_factor": 1.5, "high_freq_factor": 5.0, "original_max_position_embeddings": 4096})";
  EXPECT_EQ(read(R"({"rope_scaling": {"rope_type": "llama3", )" + numbers + "}").rope_scaling, expected);
  EXPECT_EQ(read(R"({"rope_scaling": {"type": "llama3", )" + numbers + "}").rope_scaling, expected);
  const ModelConfig five = read(R"({"rope_parameters": {"rope_type": "llama3", "rope_theta": 7.5, )" + numbers + "}");
  EXPECT_EQ(five.rope_scaling, expected);
  EXPECT_EQ(five.rope_theta, 7.5F);
}

TEST_F(HfConfig, RejectsUnsupportedValuesByName) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"model_type": "gemma3"})", "model_type is gemma3, which is not supported; supported"},
      {R"({"num_nextn_predict_layers": 2})", "num_nextn_predict_layers = 2 is not supported, expected 0 or 1"},
      {R"({"hidden_act": "gelu"})", "hidden_act = \"gelu\" is not supported"},
      {R"({"attention_bias": true})", "attention_bias = true is not supported"},
      {R"({"mlp_bias": true})", "mlp_bias = true is not supported"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}})", "\"low_freq_factor\" is missing"},
      {R"({"rope_scaling": {"rope_type": "linear"}})", "\"factor\" is missing"},
      {R"({"rope_scaling": {"rope_type": "linear", "factor": -2.0}})", "rope_scaling_factor is -2"},
      {R"({"rope_scaling": {"type": "mrope", "factor": 2.0}})", "RoPE scaling of type mrope is not supported"},
      {R"({"rope_scaling": {"type": "longrope"}})", "\"short_factor\" is missing"},
      {R"({"rope_scaling": {"rope_type": "new"}})", "RoPE scaling of type new is not supported"},
      {R"({"rope_scaling": "yarn"})", "RoPE scaling \"yarn\" is not supported"},
      {R"({"rope_scaling": {"rope_type": 3}})", "\"rope_type\""},
      {R"({"rope_parameters": {"rope_type": "yarn"}})", "\"factor\" is missing"},
      {R"({"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]}})",
       "longrope scaling needs"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 0.5, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                            "original_max_position_embeddings": 8192}})",
       "rope_scaling_factor is 0.5"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0,
                            "original_max_position_embeddings": 8192}})",
       "rope_scaling_low is 4 and rope_scaling_high 4"},
      {R"({"num_attention_heads": 5})", "n_heads 5 is not a multiple of n_kv_heads 2"},
      {R"({"vocab_size": 11.0})", "\"vocab_size\" is not an integer"},
      {R"({"tie_word_embeddings": 1})", "\"tie_word_embeddings\" is not true or false"},
      {R"({"rope_theta": 1e300})", "rope_theta is inf"},
      {R"({"max_position_embeddings": null})", "\"max_position_embeddings\" is missing"},
  };
  for (const auto& [patch, part] : cases) {
    SCOPED_TRACE(patch);
    test::expect_error([&] { static_cast<void>(read(patch)); }, {part, "config.json"});
  }
}

TEST_F(HfConfig, RejectsNegativeWidthsOfSharedExperts) {
  for (const ModelConfig& config : test::latent_shapes()) {
    if (config.n_experts == 0) continue;
    EXPECT_ERROR(read(R"({"moe_intermediate_size": -9223372036854775808})", config), "2 shared experts of width -9223");
  }
}

// In transformers, max_window_layers limits the windows of qwen2_moe to even layers, and qwen3_moe ignores it.
TEST_F(HfConfig, WindowsOfMixturesAreThoseOfTransformers) {
  ModelConfig config = kGrouped;
  test::add_experts(config, Family::Qwen2Moe, 4, 8);
  config.shared_dim = 12;
  config.sliding_window = 5;
  EXPECT_EQ(read("{}", config), config);
  EXPECT_EQ(read(R"({"layer_types": null})", config).window_period, 2);
  test::add_experts(config, Family::Qwen3Moe, 4, 8);
  config.shared_dim = 0;
  EXPECT_EQ(read(R"({"max_window_layers": 48})", config), config);
}

}  // namespace
}  // namespace folio::core
