// Tests core/formats/hf_model.h: writing and reading keeps weights, in one file or shards; bad directories are errors.
#include "core/formats/hf_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/formats/family_files.h"
#include "core/formats/safetensors.h"
#include "tests/core/model_support.h"

namespace folio::core {
namespace {

using test::kGrouped;
using test::numbered_weights;
using test::several_shapes;
using test::TempDir;
using test::write_hf_directory;

TEST(HfDirectory, RoundTripKeepsEveryBit) {
  for (const auto& shapes : {several_shapes(), test::latent_shapes(), test::ahead_shapes()}) {
    for (const ModelConfig& config : shapes) {
      const TempDir dir;
      const Weights weights = numbered_weights(config);
      write_hf_directory(dir.path(), weights, 10);
      const Weights read = to_weights(read_hf_model(dir.path()));
      EXPECT_EQ(read.config, config) << describe_difference(config, read.config);
      EXPECT_EQ(read.tensors, weights.tensors);
    }
  }
}

TEST(HfDirectory, NamesMissingAndMisshapenTensors) {
  const TempDir dir;
  write_hf_directory(dir.path(), numbered_weights(kGrouped), 10);
  auto json = nlohmann::json::parse(test::read_bytes(dir / "config.json"));
  json["num_hidden_layers"] = 3;
  test::write_bytes(dir / "config.json", json.dump());
  EXPECT_ERROR(read_hf_model(dir.path()), "model.layers.2.input_layernorm.weight of shape [24] is missing");
  json["num_hidden_layers"] = 2;
  json["vocab_size"] = 12;
  test::write_bytes(dir / "config.json", json.dump());
  EXPECT_ERROR(read_hf_model(dir.path()),
               "model.embed_tokens.weight has shape [11, 24], expected [12, 24] from config.json");
  std::filesystem::remove(dir / "config.json");
  EXPECT_ERROR(read_hf_model(dir.path()), "config.json: no such file");
}

// Returns a model's tensors in the order and with the names of a Hugging Face directory.
std::vector<TensorView> hf_views(const Weights& weights) {
  std::vector<TensorView> views = weights.views();
  const auto manifest = tensor_manifest(weights.config);
  for (size_t i = 0; i < views.size(); ++i) views[i].name = manifest[i].hf_name;
  return views;
}

// A directory with several shards, for tests that damage it.
class HfShards : public ::testing::Test {
 protected:
  HfShards() : weights_(numbered_weights(config())) {
    write_hf_model(dir_.path(), weights_.config, weights_.views(), 10, 10, 6000);
  }
  static ModelConfig config() {
    ModelConfig untied = kGrouped;
    untied.tie_embeddings = false;
    return untied;
  }
  [[nodiscard]] std::filesystem::path index_path() const { return dir_ / "model.safetensors.index.json"; }
  [[nodiscard]] nlohmann::json index() const { return nlohmann::json::parse(test::read_bytes(index_path())); }
  void write_index(const nlohmann::json& json) const { test::write_bytes(index_path(), json.dump()); }
  void expect_refused(const std::string& part) const {
    test::expect_error([&] { static_cast<void>(read_hf_model(dir_.path())); }, {part, dir_.path().string()});
  }
  // Applies `change` to the shard's tensors and rewrites the shard.
  template <typename Change>
  void change_shard(const std::string& name, Change&& change) const {
    test::write_bytes(dir_ / "old", test::read_bytes(dir_ / name));
    const SafetensorsFile old(dir_ / "old");
    std::vector<TensorView> tensors = old.tensors();
    std::erase_if(tensors, [](const TensorView& t) { return t.name.starts_with("__pad__."); });
    change(tensors);
    write_safetensors(dir_ / name, tensors);
  }

  TempDir dir_;
  Weights weights_;
};

TEST_F(HfShards, IndexListsEachTensorOnceAndTheTotalSize) {
  const auto json = index();
  const auto manifest = tensor_manifest(weights_.config);
  ASSERT_EQ(json["weight_map"].size(), manifest.size());
  std::map<std::string, uint64_t> bytes_in;
  uint64_t total = 0;
  for (const TensorView& view : hf_views(weights_)) {
    const auto shard = json["weight_map"].at(view.name).get<std::string>();
    const SafetensorsFile file(dir_ / shard);
    EXPECT_NE(file.find_tensor(view.name), nullptr) << view.name;
    bytes_in[shard] += view.bytes.size();
    total += view.bytes.size();
  }
  EXPECT_EQ(json["metadata"]["total_size"], total);
  ASSERT_GT(bytes_in.size(), 2U);
  for (const auto& [shard, bytes] : bytes_in) EXPECT_LE(bytes, 6000U) << shard;
  EXPECT_EQ(bytes_in.rbegin()->first, fmt::format("model-{0:05}-of-{0:05}.safetensors", bytes_in.size()));
}

TEST_F(HfShards, LargeTensorsGetTheirOwnShard) {
  const TempDir dir;
  write_hf_model(dir.path(), weights_.config, weights_.views(), 10, 10, 1);
  const auto json = nlohmann::json::parse(test::read_bytes(dir / "model.safetensors.index.json"));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : json["weight_map"].items()) shards.insert(shard.get<std::string>());
  EXPECT_EQ(shards.size(), weights_.tensors.size());
  EXPECT_EQ(test::bytes_of(read_hf_model(dir.path()).tensors), test::bytes_of(weights_.views()));
}

TEST_F(HfShards, PrefersASingleFileToAnIndex) {
  write_safetensors(dir_ / "model.safetensors", std::vector<TensorView>{});
  expect_refused("model.safetensors: tensor model.embed_tokens.weight of shape [11, 24] is missing");
}

TEST_F(HfShards, RejectsShardPathsOutsideTheDirectory) {
  const TempDir elsewhere;
  std::filesystem::copy_file(dir_ / "model-00001-of-00006.safetensors", elsewhere / "model-00001-of-00006.safetensors");
  const std::string outside = (elsewhere / "model-00001-of-00006.safetensors").string();
  const std::string parent = "../" + elsewhere.path().filename().string() + "/model-00001-of-00006.safetensors";
  for (const std::string& name :
       {outside, parent, std::string(), std::string(".."), std::string("."), std::string("a/b"),
        std::string("./model-00001-of-00006.safetensors"), std::string("model-00001-of-00006.safetensors\0", 33)}) {
    auto json = index();
    json["weight_map"]["model.embed_tokens.weight"] = name;
    write_index(json);
    expect_refused("is not a file name in this directory");
  }
}

TEST_F(HfShards, NamesAMissingShard) {
  std::filesystem::remove(dir_ / "model-00002-of-00006.safetensors");
  expect_refused("model-00002-of-00006.safetensors: No such file or directory");
}

TEST_F(HfShards, NamesATensorInTheWrongShard) {
  auto json = index();
  ASSERT_EQ(json["weight_map"]["model.embed_tokens.weight"], "model-00001-of-00006.safetensors");
  json["weight_map"]["model.embed_tokens.weight"] = "model-00002-of-00006.safetensors";
  write_index(json);
  expect_refused(
      "index.json: tensor model.embed_tokens.weight of model-00001-of-00006.safetensors is not in weight_map");
}

TEST_F(HfShards, NamesAnUnlistedTensor) {
  auto json = index();
  json["weight_map"].erase("model.norm.weight");
  write_index(json);
  expect_refused("tensor model.norm.weight of model-0000");
}

TEST_F(HfShards, NamesAListedTensorThatIsMissing) {
  change_shard("model-00001-of-00006.safetensors",
               [](std::vector<TensorView>& tensors) { tensors.erase(tensors.begin()); });
  expect_refused("tensor model.embed_tokens.weight is not in model-00001-of-00006.safetensors");
}

TEST_F(HfShards, NamesATensorInTwoShards) {
  const TensorView embedding = hf_views(weights_)[0];
  change_shard("model-00002-of-00006.safetensors",
               [&](std::vector<TensorView>& tensors) { tensors.push_back(embedding); });
  expect_refused("model-00002-of-00006.safetensors: tensor model.embed_tokens.weight is also in another shard");
}

TEST_F(HfShards, RejectsAnEmptyOrInvalidIndex) {
  for (const char* text : {"[]", "{}", R"({"weight_map": {}})", R"({"weight_map": []})",
                           R"({"weight_map": {"model.norm.weight": 3}})", "{", ""}) {
    test::write_bytes(index_path(), text);
    expect_refused("model.safetensors.index.json");
  }
}

// Returns the error of reading a one-file directory after `change` edited its tensors, which have Hugging Face's names.
// Rows aren't permuted to Hugging Face's order, because only the names and shapes are tested.
template <typename Change>
std::string hf_error(const ModelConfig& config, Change&& change) {
  const TempDir dir;
  const Weights weights = numbered_weights(config);
  test::write_bytes(dir / "config.json", config_to_hf_json(config, 10, 10));
  std::vector<TensorView> tensors = hf_views(weights);
  change(tensors);
  write_safetensors(dir / "model.safetensors", tensors);
  return test::message_of([&] { static_cast<void>(read_hf_model(dir.path())); });
}

TEST(HfModel, RejectsNonFloatWeights) {
  const std::string message =
      hf_error(kGrouped, [](std::vector<TensorView>& tensors) { tensors[0].type = DType::I32; });
  EXPECT_TRUE(test::contains(message, "model.embed_tokens.weight has type I32, expected F32, F16, BF16"));
}

TEST(HfModel, AcceptsACopyOfTheTiedEmbeddingAsOutput) {
  const std::vector<float> other(11 * 24);
  const auto with_head = [&](const ModelConfig& config, bool same) {
    return hf_error(config, [&](std::vector<TensorView>& tensors) {
      TensorView head = tensors[0];
      head.name = "lm_head.weight";
      if (!same) head.bytes = std::as_bytes(std::span(other));
      tensors.push_back(head);
    });
  };
  EXPECT_EQ(with_head(kGrouped, true), "");
  EXPECT_TRUE(test::contains(with_head(kGrouped, false), "unexpected tensor lm_head.weight for the family llama"));
}

TEST(HfModel, ReadsPublishedModulesAndRejectsIncompleteOnes) {
  const ModelConfig config = test::ahead_shapes().back();
  const auto error = [&](const char* removed, std::initializer_list<const char*> added) {
    return hf_error(config, [&](std::vector<TensorView>& tensors) {
      std::erase_if(tensors, [&](const TensorView& t) { return t.name.find(removed) != t.name.npos; });
      for (const char* name : added) {
        tensors.push_back(tensors.front());
        tensors.back().name = name;
      }
    });
  };
  EXPECT_EQ(error("none", {"model.layers.2.embed_tokens.weight", "model.layers.2.shared_head.head.weight"}), "");
  EXPECT_EQ(error("model.layers.2.", {}), "") << "transformers saves models without the module";
  EXPECT_TRUE(test::contains(error("enorm", {}), "tensor model.layers.2.enorm.weight of shape [24] is missing"));
  EXPECT_TRUE(test::contains(error("none", {"model.layers.2.other"}), "unexpected tensor model.layers.2.other"));
}

// Only wq and wk are copied, if the family needs their rows permuted. Other tensors are views of the mapped file.
TEST(HfModel, SplitRopeLayoutsStayMapped) {
  for (const FamilyInfo& family : families()) {
    const TempDir dir;
    ModelConfig config = kGrouped;
    // Skips families with experts, latent attention or norms stored minus 1, because more of their tensors are copied.
    if (!family.mixture.none || family.latent || hf_family(family.family).norms_stored_minus_1) continue;
    config.family = family.family;
    write_hf_directory(dir.path(), numbered_weights(config), 10);
    const StoredModel model = read_hf_model(dir.path());
    const auto copies = family.pairs == hf_family(family.family).pairs ? 0 : 2 * config.n_layers;
    EXPECT_EQ(model.storage.size(), static_cast<size_t>(copies)) << family.name;
    const auto mapped = std::ranges::count_if(model.tensors, [&](const auto& tensor) { return model.maps(tensor); });
    EXPECT_EQ(static_cast<size_t>(mapped), model.tensors.size() - static_cast<size_t>(copies)) << family.name;
  }
}

TEST(HfModel, IgnoresComputedTables) {
  const std::vector<float> table(3);
  EXPECT_EQ(hf_error(kGrouped,
                     [&](std::vector<TensorView>& tensors) {
                       tensors.push_back({.name = "model.layers.0.self_attn.rotary_emb.inv_freq",
                                          .type = DType::F32,
                                          .shape = {3},
                                          .bytes = std::as_bytes(std::span(table))});
                     }),
            "");
}

TEST(HfModel, NamesAnUnexpectedTensor) {
  for (const char* name :
       {"model.layers.2.input_layernorm.weight", "rotary_emb.inv_freq.weight", "model.norm", "lm_head.weight"}) {
    const std::vector<float> values(24);
    const std::string message = hf_error(kGrouped, [&](std::vector<TensorView>& tensors) {
      tensors.push_back({.name = name, .type = DType::F32, .shape = {24}, .bytes = std::as_bytes(std::span(values))});
    });
    EXPECT_TRUE(test::contains(message, std::string("unexpected tensor ") + name + " for the family llama"));
  }
}

TEST(HfModel, NamesEachMissingTensor) {
  for (const bool tied : {true, false}) {
    ModelConfig config = kGrouped;
    config.tie_embeddings = tied;
    const auto manifest = tensor_manifest(config);
    for (size_t i = 0; i < manifest.size(); ++i) {
      const std::string message = hf_error(
          config, [&](std::vector<TensorView>& tensors) { tensors.erase(tensors.begin() + static_cast<long>(i)); });
      EXPECT_TRUE(test::contains(
          message, "tensor " + manifest[i].hf_name + " of shape " + shape_string(manifest[i].shape) + " is missing"));
    }
  }
}

}  // namespace
}  // namespace folio::core
