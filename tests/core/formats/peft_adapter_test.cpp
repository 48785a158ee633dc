// Tests core/formats/peft_adapter.cpp: writing and reading keeps an adapter. lora_test.py, lora_train_test.py and
// adapter_files_test.py in tests/apps compare both directions with peft.
#include <gtest/gtest.h>

#include "core/formats/adapter_files.h"
#include "core/formats/module_pattern.h"
#include "core/formats/safetensors.h"
#include "tests/core/model_support.h"

namespace folio::core {
namespace {

using test::kGrouped;
using test::TempDir;

// Returns an adapter for the matrices with the given roles in every layer. All of its values differ.
Adapter numbered_adapter(const ModelConfig& config, const std::vector<Role>& roles, const AdapterInfo& info) {
  Adapter adapter{.path = "", .parts = {}};
  float next = 0.0F;
  for (const TensorSpec& spec : tensor_manifest(config)) {
    if (std::ranges::find(roles, spec.role) == roles.end()) continue;
    Adapter::Part part{.role = spec.role,
                       .layer = spec.layer,
                       .rank = static_cast<size_t>(info.rank),
                       .scale = info.scale(),
                       .a = std::vector<float>(static_cast<size_t>(info.rank * spec.shape[1])),
                       .b = std::vector<float>(static_cast<size_t>(spec.shape[0] * info.rank))};
    for (float& value : part.a) value = next += 0.25F;
    for (float& value : part.b) value = next += 0.25F;
    adapter.parts.push_back(std::move(part));
  }
  return adapter;
}

void expect_same(const Adapter& read, const Adapter& written) {
  ASSERT_EQ(read.parts.size(), written.parts.size());
  for (size_t i = 0; i < read.parts.size(); ++i) {
    const Adapter::Part& one = read.parts[i];
    const Adapter::Part& two = written.parts[i];
    EXPECT_EQ(one.role, two.role);
    EXPECT_EQ(one.layer, two.layer);
    EXPECT_EQ(one.rank, two.rank);
    EXPECT_EQ(one.scale, two.scale);
    EXPECT_EQ(one.a, two.a);
    EXPECT_EQ(one.b, two.b);
  }
}

const AdapterInfo kOfTwo{.rank = 3,
                         .alpha = 2.5,
                         .dropout = 0.125,
                         .targets = {Role::Wq, Role::Wk, Role::W2},
                         .base = "a \"name\"",
                         .by_root = false};

TEST(PeftAdapter, RoundTripKeepsTheAdapter) {
  for (const Family family : {Family::Llama, Family::Qwen2}) {
    for (const bool by_root : {false, true}) {
      ModelConfig config = kGrouped;
      config.family = family;
      AdapterInfo info = kOfTwo;
      info.by_root = by_root;
      const TempDir dir;
      const Adapter adapter = numbered_adapter(config, info.targets, info);
      write_adapter(dir.path(), config, adapter, info);
      expect_same(read_peft_adapter(dir.path(), config), adapter);
      const AdapterInfo read = read_adapter_info(dir.path());
      EXPECT_EQ(read.rank, info.rank);
      EXPECT_EQ(read.alpha, info.alpha);
      EXPECT_EQ(read.dropout, info.dropout);
      EXPECT_EQ(read.base, info.base);
      EXPECT_EQ(read.by_root, info.by_root);
    }
  }
}

TEST(PeftAdapter, PartialAdaptersListTheirModules) {
  const TempDir dir;
  Adapter adapter = numbered_adapter(kGrouped, kOfTwo.targets, kOfTwo);
  adapter.parts.erase(adapter.parts.begin() + 1);
  write_adapter(dir.path(), kGrouped, adapter, kOfTwo);
  expect_same(read_peft_adapter(dir.path(), kGrouped), adapter);
  const std::string config = test::read_bytes(dir / "adapter_config.json");
  EXPECT_TRUE(test::contains(config, "\"model.layers.0.self_attn.q_proj\""));
  EXPECT_FALSE(test::contains(config, "model.layers.0.self_attn.k_proj")) << config;
  EXPECT_TRUE(test::contains(config, "\"model.layers.1.self_attn.k_proj\""));
}

TEST(PeftAdapter, WritesOnlyAdapterTensors) {
  const TempDir dir;
  const AdapterInfo info{.rank = 1, .alpha = 1, .dropout = 0, .targets = {Role::Wk}, .base = ""};
  ModelConfig config = kGrouped;
  config.dim = 20;  // rows of 80 bytes: a model file would have padding tensors, to align rows to 64 bytes
  config.n_heads = 2;
  config.head_dim = 10;
  write_adapter(dir.path(), config, numbered_adapter(config, info.targets, info), info);
  EXPECT_EQ(SafetensorsFile(dir / "adapter_model.safetensors").tensors().size(), 4);
}

// transformers' Phi-3 has a module qkv_proj, but no q_proj.
TEST(PeftAdapter, RejectsAdaptersOfFusedMatrices) {
  const TempDir dir;
  ModelConfig phi3 = kGrouped;
  phi3.family = Family::Phi3;
  const AdapterInfo info{.rank = 1, .alpha = 1, .dropout = 0, .targets = {Role::Wo, Role::W2}, .base = ""};
  const Adapter adapter = numbered_adapter(phi3, info.targets, info);
  write_adapter(dir.path(), phi3, adapter, info);
  expect_same(read_peft_adapter(dir.path(), phi3), adapter);
  for (const std::string module : {"self_attn.q_proj", "self_attn.qkv_proj", "mlp.gate_up_proj"}) {
    const std::string name = "base_model.model.model.layers.1." + module + ".lora_A.weight";
    const float value = 1.0F;
    const std::vector<TensorView> tensors{
        {.name = name, .type = DType::F32, .shape = {1, 1}, .bytes = std::as_bytes(std::span(&value, 1))}};
    write_safetensors(dir / "adapter_model.safetensors", tensors);
    EXPECT_ERROR(read_peft_adapter(dir.path(), phi3), "files of the family phi3 fuse (" + name + ")");
  }
}

TEST(PeftAdapter, RejectsPartsThatDoNotMatchTheInfo) {
  const TempDir dir;
  const Adapter adapter = numbered_adapter(kGrouped, kOfTwo.targets, kOfTwo);
  AdapterInfo other = kOfTwo;
  other.rank = 4;
  EXPECT_ERROR(write_adapter(dir.path(), kGrouped, adapter, other), "has rank 3");
  other = kOfTwo;
  other.alpha = 1;
  EXPECT_ERROR(write_adapter(dir.path(), kGrouped, adapter, other), "scale");
  Adapter parts = adapter;
  parts.parts.back().layer = 2;
  EXPECT_ERROR(write_adapter(dir.path(), kGrouped, parts, kOfTwo), "no layer 2");
  parts = adapter;
  parts.parts.back().b.pop_back();
  EXPECT_ERROR(write_adapter(dir.path(), kGrouped, parts, kOfTwo), "down_proj.lora_B");
}

// names_module() must match like Python's re.match(rf"(.*\\.)?({key})$", module), which peft uses.
bool fits(const std::string& key, const std::string& module) {
  return names_module(key, module, "where", WorkBudget(1'000'000));
}

TEST(ModulePattern, MatchesLikePythonsRe) {
  for (const char* key :
       {"q_proj", "self_attn.q_proj", "^model.*", "model.layers.1.self_attn.q_proj$", ".*", "(q|k)_proj",
        "[a-q]_pro[^x]", "q_?proj", "(?:layers\\.[0-9]+\\.)(\\w+\\.)q_proj", "q_proj|x", "x|q_proj"}) {
    EXPECT_TRUE(fits(key, "model.layers.1.self_attn.q_proj")) << key;
  }
  for (const char* key : {"_proj", "proj", "model", "Q_proj", "q_projx", "layers.\\d", "", "^q_proj"}) {
    EXPECT_FALSE(fits(key, "model.layers.1.self_attn.q_proj")) << key;
  }
  EXPECT_TRUE(fits("(a|aa)*b", "aaaaab") && fits("(a*)*", ""));
  EXPECT_TRUE(fits("[]^]\\.\\<\\^\\]\\\\", "].<^]\\") && fits("[^]a]", "x"));
}

TEST(ModulePattern, RejectsUnsupportedPatterns) {
  for (const char* key : {"(?=a)b", "a{2}", "(a", "a)", "[a", "*a", "a**", "a+?", "a\\", "\\b", "[\\d]", "[[:alpha:]]",
                          "[b-a]", "(a|*b)"}) {
    EXPECT_ERROR(fits(key, "a"), "where: the pattern");
  }
}

// Nested repetitions evaluate their content at least twice per level; "^" and "()" match without reading a character.
TEST(ModulePattern, ManyStepsAreRejected) {
  for (const std::string innermost : {"a", "^", "()", "a|b"}) {
    std::string nested = innermost;
    for (int i = 0; i < 20; ++i) nested = "(" + nested + ")*";
    EXPECT_ERROR(fits(nested, std::string(200, 'a')), "too many steps");
  }
}

TEST(ModulePattern, RepetitionsOfNothingTakeFewSteps) {
  for (const std::string part : {"(.?|.?)+", "(a?)*", "(a*)*", "(a|a)*"}) {
    std::string key;
    for (int i = 0; i < 10; ++i) key += part;
    EXPECT_FALSE(fits(key + "!", "model.layers.1.self_attn.q_proj")) << key;
  }
}

}  // namespace
}  // namespace folio::core
