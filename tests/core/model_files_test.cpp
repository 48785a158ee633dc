// Laws of core/model_files.h: both layouts keep every bit, and what is not run here is refused by name.
#include "core/model_files.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/file_io.h"
#include "core/safetensors.h"
#include "tests/core/support.h"

namespace folio::core {
namespace {

using test::TempDir;

// Odd sizes on purpose: no matrix is a whole number of cache lines, and heads are grouped.
const ModelConfig kGrouped{.vocab_size = 11,
                           .dim = 24,
                           .n_layers = 2,
                           .n_heads = 4,
                           .n_kv_heads = 2,
                           .hidden_dim = 20,
                           .context_length = 33,
                           .rope_theta = 500000.0F,
                           .norm_eps = 1e-6F,
                           .tie_embeddings = true};

std::vector<ModelConfig> several_shapes() {
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

Weights numbered_weights(const ModelConfig& config) {
  Weights weights{.config = config, .tensors = {}};
  float next = 1.0F;
  for (const TensorSpec& spec : tensor_manifest(config)) {
    std::vector<float> values(static_cast<size_t>(spec.elements()));
    for (float& value : values) value = (next += 1.0F) / 7.0F;
    weights.tensors.push_back(std::move(values));
  }
  return weights;
}

std::vector<TensorView> views_of(const Weights& weights) {
  const auto manifest = tensor_manifest(weights.config);
  std::vector<TensorView> views;
  for (size_t i = 0; i < manifest.size(); ++i) {
    views.push_back({.name = manifest[i].gguf_name,
                     .type = DType::F32,
                     .shape = manifest[i].shape,
                     .bytes = std::as_bytes(std::span(weights.tensors[i]))});
  }
  return views;
}

// A model's GGUF after `change` had its way with the metadata and the tensors.
template <typename Change>
GgufFile changed_gguf(const std::filesystem::path& path, const Weights& weights, Change change) {
  GgufMetadata metadata = config_to_gguf(weights.config, "test");
  std::vector<TensorView> tensors = views_of(weights);
  change(metadata, tensors);
  write_file_atomically(path, [&](OutputFile& out) { write_gguf(out, metadata, tensors); });
  return GgufFile(path);
}

void set(GgufMetadata& metadata, const std::string& key, GgufValue value) {
  std::erase_if(metadata, [&](const auto& entry) { return entry.first == key; });
  metadata.emplace_back(key, std::move(value));
}

TEST(ModelGguf, ConfigurationAndWeightsSurviveARoundTrip) {
  const TempDir dir;
  for (const ModelConfig& config : several_shapes()) {
    const Weights weights = numbered_weights(config);
    write_model_gguf(dir / "m.gguf", weights, "a name", {{"tokenizer.ggml.model", std::string("gpt2")}});
    const GgufFile file(dir / "m.gguf");
    EXPECT_EQ(config_from_gguf(file), config) << describe_difference(config, config_from_gguf(file));
    EXPECT_EQ(file.string("general.name"), "a name");
    EXPECT_EQ(file.string("tokenizer.ggml.model"), "gpt2");
    EXPECT_EQ(file.integer("llama.vocab_size"), config.vocab_size);
    const auto views = manifest_tensors(file, config);
    ASSERT_EQ(views.size(), weights.tensors.size());
    for (size_t i = 0; i < views.size(); ++i) {
      const auto values = views[i].floats();
      EXPECT_TRUE(std::equal(values.begin(), values.end(), weights.tensors[i].begin(), weights.tensors[i].end()));
      EXPECT_EQ(views[i].name, file.tensors()[i].name) << "the file's order is the manifest's";
    }
  }
}

TEST(ModelGguf, OptionalKeysHaveTheFormatsDefaults) {
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

TEST(ModelGguf, RefusesWhatIsNotRunHereByName) {
  const TempDir dir;
  const Weights weights = numbered_weights(kGrouped);
  const auto refusal = [&](const std::string& key, GgufValue value) {
    const GgufFile file =
        changed_gguf(dir / "m.gguf", weights, [&](GgufMetadata& metadata, auto&) { set(metadata, key, value); });
    const std::string message = test::error_of([&] { static_cast<void>(config_from_gguf(file)); });
    EXPECT_TRUE(test::contains(message, "m.gguf")) << message;
    return message;
  };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_TRUE(test::contains(message, part)) << message;
  };
  expect(refusal("general.architecture", std::string("qwen\x1B")), "the architecture is qwen\\x1B");
  expect(refusal("general.architecture", uint32_t{1}), "general.architecture");
  expect(refusal("llama.rope.dimension_count", uint32_t{4}), "RoPE over 4 of 6 dimensions");
  expect(refusal("llama.attention.key_length", uint32_t{8}), "llama.attention.key_length");
  expect(refusal("llama.attention.value_length", uint32_t{8}), "llama.attention.value_length");
  expect(refusal("llama.rope.scaling.type", std::string("yarn")), "RoPE scaling of type yarn");
  expect(refusal("llama.rope.scaling.factor", 4.0F), "llama.rope.scaling.factor");
  expect(refusal("llama.rope.scale_linear", 4.0F), "llama.rope.scale_linear");
  expect(refusal("llama.attention.head_count", uint32_t{0}), "n_heads is 0");
  expect(refusal("llama.attention.head_count", uint32_t{5}), "not a multiple of n_heads 5");
  expect(refusal("llama.attention.head_count", GgufArray{std::vector<int32_t>{4, 4}}), "not an integer");
  expect(refusal("llama.attention.head_count_kv", uint32_t{3}), "n_kv_heads 3");
  expect(refusal("llama.embedding_length", UINT64_MAX), "too large");
  expect(refusal("llama.embedding_length", int32_t{-24}), "dim is -24");
  expect(refusal("llama.block_count", uint32_t{100000}), "n_layers is 100000");
  expect(refusal("llama.attention.layer_norm_rms_epsilon", 0.0F), "norm_eps is 0");
  expect(refusal("llama.rope.freq_base", std::numeric_limits<float>::quiet_NaN()), "rope_theta is nan");
  expect(refusal("llama.rope.freq_base", uint32_t{10000}), "llama.rope.freq_base is not a floating-point number");
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

TEST(ModelGguf, AMissingEmbeddingIsNamed) {
  const TempDir dir;
  const GgufFile file = changed_gguf(dir / "m", numbered_weights(kGrouped),
                                     [](auto&, std::vector<TensorView>& tensors) { tensors.erase(tensors.begin()); });
  EXPECT_ERROR(config_from_gguf(file), "token_embd.weight is missing");
}

TEST(ManifestTensors, NamesAMissingTensorAndItsShape) {
  const TempDir dir;
  const Weights weights = numbered_weights(kGrouped);
  for (const size_t missing : {size_t{3}, weights.tensors.size() - 1}) {
    const std::string name = tensor_manifest(kGrouped)[missing].gguf_name;
    const GgufFile file = changed_gguf(dir / "m", weights, [&](auto&, std::vector<TensorView>& tensors) {
      tensors.erase(tensors.begin() + static_cast<ptrdiff_t>(missing));
    });
    EXPECT_ERROR(
        manifest_tensors(file, kGrouped),
        "the tensor " + name + " of shape " + shape_string(tensor_manifest(kGrouped)[missing].shape) + " is missing");
  }
}

TEST(ManifestTensors, NamesAnExtraTensor) {
  const TempDir dir;
  const std::vector<float> bias(24);
  const GgufFile file =
      changed_gguf(dir / "m", numbered_weights(kGrouped), [&](auto&, std::vector<TensorView>& tensors) {
        tensors.insert(
            tensors.begin() + 5,
            {.name = "blk.0.attn_q.bias", .type = DType::F32, .shape = {24}, .bytes = std::as_bytes(std::span(bias))});
      });
  EXPECT_ERROR(manifest_tensors(file, kGrouped), "the tensor blk.0.attn_q.bias is no part of a llama model");
}

TEST(ManifestTensors, TellsExpectedFromActualShape) {
  const TempDir dir;
  const GgufFile file =
      changed_gguf(dir / "m", numbered_weights(kGrouped), [&](auto&, std::vector<TensorView>& tensors) {
        tensors[3].shape = {24, 12};
      });
  EXPECT_ERROR(manifest_tensors(file, kGrouped),
               "tensor blk.0.attn_k.weight has shape [24, 12], but [12, 24] is expected");
}

TEST(ManifestTensors, FollowsTheManifestWhateverTheFilesOrder) {
  const TempDir dir;
  const GgufFile file =
      changed_gguf(dir / "m", numbered_weights(kGrouped),
                   [&](auto&, std::vector<TensorView>& tensors) { std::reverse(tensors.begin(), tensors.end()); });
  const auto manifest = tensor_manifest(kGrouped);
  const auto views = manifest_tensors(file, kGrouped);
  ASSERT_EQ(views.size(), manifest.size());
  for (size_t i = 0; i < views.size(); ++i) EXPECT_EQ(views[i].name, manifest[i].gguf_name);
}

TEST(HfDirectory, RoundTripKeepsEveryBit) {
  for (const ModelConfig& config : several_shapes()) {
    const TempDir dir;
    const Weights weights = numbered_weights(config);
    write_hf_directory(dir.path(), weights, 10);
    const Weights read = read_hf_directory(dir.path());
    EXPECT_EQ(read.config, config) << describe_difference(config, read.config);
    EXPECT_EQ(read.tensors, weights.tensors);
  }
}

TEST(HfDirectory, OnlyQueryAndKeyRowsArePermuted) {
  const TempDir dir;
  const Weights weights = numbered_weights(kGrouped);
  write_hf_directory(dir.path(), weights, 10);
  const SafetensorsFile file(dir / "model.safetensors");
  const auto manifest = tensor_manifest(kGrouped);
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorView* view = file.find_tensor(manifest[i].hf_name);
    ASSERT_NE(view, nullptr) << manifest[i].hf_name;
    const auto stored = view->floats();
    const bool same = std::equal(stored.begin(), stored.end(), weights.tensors[i].begin(), weights.tensors[i].end());
    EXPECT_EQ(same, !manifest[i].rope_permuted()) << manifest[i].hf_name;
    if (!manifest[i].rope_permuted()) continue;
    // Row 1 of a head (the partner of row 0) stands at head_dim / 2 there: here row 3 of 6.
    for (size_t column = 0; column < 24; ++column) {
      EXPECT_EQ(stored[3 * 24 + column], weights.tensors[i][24 + column]);
      EXPECT_EQ(stored[(6 + 1) * 24 + column], weights.tensors[i][(6 + 2) * 24 + column]);
    }
  }
}

TEST(HfDirectory, NamesWhatIsMissingOrMisshapen) {
  const TempDir dir;
  write_hf_directory(dir.path(), numbered_weights(kGrouped), 10);
  auto json = nlohmann::json::parse(test::read_bytes(dir / "config.json"));
  json["num_hidden_layers"] = 3;
  test::write_bytes(dir / "config.json", json.dump());
  EXPECT_ERROR(read_hf_directory(dir.path()), "model.layers.2.input_layernorm.weight of shape [24] is missing");
  json["num_hidden_layers"] = 2;
  json["vocab_size"] = 12;
  test::write_bytes(dir / "config.json", json.dump());
  EXPECT_ERROR(read_hf_directory(dir.path()),
               "model.embed_tokens.weight has shape [11, 24], but config.json means [12, 24]");
  std::filesystem::remove(dir / "config.json");
  EXPECT_ERROR(read_hf_directory(dir.path()), "config.json: no such file");
}

TEST(HfDirectory, RefusesWeightsThatAreNotFloats) {
  const TempDir dir;
  write_hf_directory(dir.path(), numbered_weights(kGrouped), 10);
  const std::vector<uint16_t> half(11 * 24);
  write_safetensors(dir / "model.safetensors", {{.name = "model.embed_tokens.weight",
                                                 .type = DType::BF16,
                                                 .shape = {11, 24},
                                                 .bytes = std::as_bytes(std::span(half))}});
  EXPECT_ERROR(read_hf_directory(dir.path()), "has type BF16, but F32 is needed here");
}

class HfConfig : public ::testing::Test {
 protected:
  // config.json of kGrouped with `patch` merged into it (a null removes a key), read back.
  ModelConfig read(const std::string& patch) const {
    auto json = nlohmann::json::parse(config_to_hf_json(kGrouped, 10));
    json.merge_patch(nlohmann::json::parse(patch));
    test::write_bytes(dir_ / "config.json", json.dump());
    return config_from_hf_json(dir_ / "config.json");
  }
  std::string refusal(const std::string& patch) const {
    return test::error_of([&] { static_cast<void>(read(patch)); });
  }
  TempDir dir_;
};

TEST_F(HfConfig, RoundTripKeepsEveryField) {
  for (const ModelConfig& config : several_shapes()) {
    test::write_bytes(dir_ / "config.json", config_to_hf_json(config, 3));
    EXPECT_EQ(config_from_hf_json(dir_ / "config.json"), config);
  }
}

TEST_F(HfConfig, NamesTheEndOfText) {
  const auto json = nlohmann::json::parse(config_to_hf_json(kGrouped, 3));
  EXPECT_EQ(json["bos_token_id"], 3);
  EXPECT_EQ(json["eos_token_id"], 3);
}

TEST_F(HfConfig, AbsentKeysHaveTransformersDefaults) {
  ModelConfig expected = kGrouped;
  expected.n_kv_heads = 4;
  expected.rope_theta = 10000.0F;
  expected.tie_embeddings = false;
  EXPECT_EQ(read(R"({"num_key_value_heads": null, "rope_theta": null, "tie_word_embeddings": null, "head_dim": null,
                     "hidden_act": null, "attention_bias": null, "mlp_bias": null})"),
            expected);
}

TEST_F(HfConfig, ReadsThetaWhereTransformers5WritesIt) {
  EXPECT_EQ(
      read(R"({"rope_theta": null, "rope_parameters": {"rope_type": "default", "rope_theta": 1234.5}})").rope_theta,
      1234.5F);
}

TEST_F(HfConfig, RefusesWhatIsNotSupportedByName) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({"model_type": "mistral"})", "model_type is mistral"},
      {R"({"hidden_act": "gelu"})", "hidden_act = \"gelu\" is not supported"},
      {R"({"attention_bias": true})", "attention_bias = true is not supported"},
      {R"({"mlp_bias": true})", "mlp_bias = true is not supported"},
      {R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}})", "rope_scaling = "},
      {R"({"rope_parameters": {"rope_type": "yarn"}})", "rope_type \"yarn\" is not supported"},
      {R"({"head_dim": 8})", "head_dim = 8 is not supported"},
      {R"({"num_attention_heads": 0})", "n_heads is 0"},
      {R"({"num_attention_heads": 5})", "not a multiple of n_heads 5"},
      {R"({"vocab_size": -1})", "vocab_size is -1"},
      {R"({"vocab_size": 11.0})", "\"vocab_size\" is not an integer"},
      {R"({"vocab_size": "11"})", "\"vocab_size\" is not an integer"},
      {R"({"vocab_size": 18446744073709551615})", "vocab_size"},
      {R"({"tie_word_embeddings": 1})", "\"tie_word_embeddings\" is not true or false"},
      {R"({"rms_norm_eps": "small"})", "\"rms_norm_eps\""},
      {R"({"rope_theta": true})", "\"rope_theta\""},
      {R"({"rope_theta": 1e300})", "rope_theta is inf"},
      {R"({"max_position_embeddings": null})", "\"max_position_embeddings\" is missing"},
  };
  for (const auto& [patch, part] : cases) {
    const std::string message = refusal(patch);
    EXPECT_TRUE(test::contains(message, part)) << patch << " gave: " << message;
    EXPECT_TRUE(test::contains(message, "config.json")) << message;
  }
}

TEST_F(HfConfig, RefusesWhatIsNotAJsonObject) {
  for (const char* text : {"", "[]", "3", "{", R"({"model_type": "llama", "model_type": "llama"})"}) {
    test::write_bytes(dir_ / "config.json", text);
    EXPECT_ERROR(config_from_hf_json(dir_ / "config.json"), "config.json");
  }
}

}  // namespace
}  // namespace folio::core
