#include "train/config/train_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/manifest.h"
#include "tests/train/support.h"

namespace folio::train {
namespace {

constexpr int64_t kShakespeareTokens = 66;

int64_t parameters_of(const std::string& name) {
  TrainConfig c = preset(name);
  c.model.vocab_size = kShakespeareTokens;
  return core::parameter_count(c.model);
}

TEST(TrainConfig, PresetsHaveTheExpectedSizes) {
  // A model has V d + L (4 d² + 3 d h + 2 d) + d parameters, for vocabulary size V, width d, L layers and hidden width
  // h. An untied head adds V d.
  EXPECT_EQ(parameters_of("tiny"), 812416);
  EXPECT_EQ(parameters_of("baby"), 2 * 66 * 384 + 6 * (4 * 384 * 384 + 3 * 384 * 1024 + 2 * 384) + 384);
  EXPECT_EQ(parameters_of("blog"), parameters_of("tiny") + 66 * 128);
}

TEST(TrainConfig, FirstPresetIsTheDefault) {
  EXPECT_EQ(preset_names().front(), "tiny");
  EXPECT_TRUE(preset("tiny") == TrainConfig());
}

TEST(TrainConfig, EveryPresetIsValidAndNamed) {
  for (const auto& name : preset_names()) {
    EXPECT_NO_THROW(validate(preset(name))) << name;
    EXPECT_EQ(preset(name).preset, name);
  }
}

// Returns a configuration whose fields have different values, so that mixing up two fields fails a test.
TrainConfig unusual() {
  TrainConfig c;
  int n = 0;
  const auto vary = [&n](auto& value, double low, double high) {
    using T = std::decay_t<decltype(value)>;
    ++n;
    if constexpr (std::is_same_v<T, bool>) {
      value = !value;
    } else if constexpr (std::is_same_v<T, core::Family>) {
      value = core::Family::Qwen3;
    } else if constexpr (std::is_same_v<T, std::vector<float>>) {
      value = {static_cast<float>(n), 0.1F};
    } else if constexpr (std::is_enum_v<T>) {
      value = static_cast<T>(value == static_cast<T>(1) ? 0 : 1);
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = fmt::format("text {}", n);
    } else {
      value = static_cast<T>(low + (high - low) * n / 128);
    }
  };
  TrainConfig::visit_fields(c, [&](auto&&, auto& value, const TrainField& field) {
    if (field.kept == Kept::InFiles) vary(value, field.low, std::min(field.high, 1e3));
  });
  core::ModelConfig::visit_fields(c.model, [&](const char*, auto& value, auto&&) { vary(value, 0.1, 136.1); });
  c.preset = "baby";
  c.seed = 17'999'999'999'999'999'999ULL;
  c.lr = 0.1 + 0.2;  // has no short decimal form
  return c;
}

TEST(TrainConfig, JsonRoundTripKeepsEveryBit) {
  const TrainConfig c = unusual();
  const auto text = to_json(c).dump();
  EXPECT_EQ(config_from_json(nlohmann::json::parse(text), "here"), c);
}

TEST(TrainConfig, RanksAndThreadsAreNotSaved) {
  const auto json = to_json(TrainConfig());
  for (const char* key : {"minutes", "epochs", "threads", "shared_experts", "data_parallel", "zero", "rank_timeout"})
    EXPECT_FALSE(json.contains(key)) << key;
}

TEST(TrainConfig, OlderConfigsWithoutAFamilyAreLlama) {
  TrainConfig c;
  c.model.dim = 96;
  c.model.head_dim = 24;
  auto json = nlohmann::json::parse(to_json(c).dump());
  for (const char* key : {"family", "head_dim", "sliding_window"}) json["model"].erase(key);
  EXPECT_EQ(config_from_json(json, "here"), c);
}

TEST(TrainConfig, MissingKeysOfOlderRunsUseDefaults) {
  auto json = nlohmann::json::parse(to_json(preset("baby")).dump());
  for (const char* key : {"decay_fraction", "ema", "patience", "export", "sample", "momentum", "fused", "recompute"})
    ASSERT_EQ(json.erase(key), 1U) << key;
  TrainConfig expected = preset("baby");
  expected.fused = false;  // as in the versions without the key
  EXPECT_EQ(config_from_json(json, "here"), expected);
}

TEST(TrainConfig, AcrossDocumentsIsABooleanOrAName) {
  TrainConfig c;
  EXPECT_EQ(to_json(c)["across_documents"], true);
  c.across_documents = AcrossDocuments::Mask;
  EXPECT_EQ(to_json(c)["across_documents"], "mask");
  auto json = nlohmann::json::parse(to_json(c).dump());
  EXPECT_EQ(config_from_json(json, "here"), c);
  json["across_documents"] = false;
  EXPECT_EQ(config_from_json(json, "here").across_documents, AcrossDocuments::False);
}

TEST(TrainConfig, ErrorsNameMissingKeys) {
  auto json = nlohmann::json::parse(to_json(TrainConfig()).dump());
  for (const char* key : {"warmup_steps", "preset", "model"}) {
    auto less = json;
    less.erase(key);
    EXPECT_ERROR(config_from_json(less, "trainer.json"), key);
  }
}

TEST(TrainConfig, DifferencesShowOldAndNewValues) {
  TrainConfig a;
  a.lr = 0.001;
  TrainConfig b = a;
  EXPECT_EQ(describe_difference(a, b), "");
  b.lr = 0.5;
  b.model.n_layers = 7;
  b.schedule = ScheduleKind::Constant;
  for (const char* part : {"lr 0.001 -> 0.5", "n_layers 4 -> 7", "schedule \"cosine\" -> \"constant\""}) {
    EXPECT_TRUE(test::contains(describe_difference(a, b), part));
  }
}

TEST(TrainConfig, LogIntervalsAndDeviceAreNotDifferences) {
  TrainConfig a;
  TrainConfig b;
  b.eval_every = b.checkpoint_every = b.log_every = 3;
  b.log_style = LogStyle::Epoch;
  b.device = DeviceKind::Cuda;
  b.exported = Exported::Last;
  b.sample = 7;
  EXPECT_EQ(describe_difference(a, b), "");
}

TEST(TrainConfig, UnknownNamesListTheChoices) {
  for (const char* key : {"schedule", "optimizer", "dtype", "device", "export", "log_style"}) {
    auto json = nlohmann::json::parse(to_json(TrainConfig()).dump());
    json[key] = "sgd";
    test::expect_error([&] { static_cast<void>(config_from_json(json, "here")); },
                       {"here: ", key, "\"sgd\" is unknown, expected one of: "});
  }
}

TEST(TrainConfig, NumbersOutsideTheirLimitsAreRejected) {
  auto json = nlohmann::json::parse(to_json(TrainConfig()).dump());
  json["log_every"] = 0;  // would divide by zero
  EXPECT_ERROR(config_from_json(json, "here"), "\"log_every\" is 0, expected a number in [1, 1e+12]");
}

TEST(TrainConfig, ValidationErrorsNameTheFlag) {
  const auto refused = [](const char* part, void (*spoil)(TrainConfig&)) {
    TrainConfig c;
    spoil(c);
    EXPECT_TRUE(test::contains(test::error_of<core::UsageError>([&] { validate(c); }), part));
  };
  refused("--context is 1, expected at least 2", [](TrainConfig& c) { c.window = c.model.context_length = 1; });
  refused("--window", [](TrainConfig& c) { c.window = c.model.context_length + 1; });
  refused("--min-lr", [](TrainConfig& c) { c.min_lr = 2 * c.lr; });
  refused("--validation-fraction", [](TrainConfig& c) { c.validation_fraction = c.test_fraction = 0.5; });
  refused("--optimizer galore", [](TrainConfig& c) {
    c.lora_rank = 8;
    c.optimizer = OptimizerKind::GaLore;
  });
  refused("--zero 1 does not support adapters", [](TrainConfig& c) {
    c.lora_rank = 8;
    c.mesh = {.data = 2, .zero = 1};
  });
  refused("--zero 2 shards", [](TrainConfig& c) { c.mesh.zero = 2; });
  refused("--lora-rank does not support a model with a module of --mtp; remove it with export --layers 4",
          [](TrainConfig& c) { c.lora_rank = c.model.n_tokens_ahead = 1; });
  refused("--lora-targets all: files of the family phi3 fuse some of these matrices; use --lora-targets o,down",
          [](TrainConfig& c) {
            c.lora_rank = 8;
            c.model.family = core::Family::Phi3;
          });
  refused("use --lora-targets q,k,v,o,down", [](TrainConfig& c) {
    c.lora_rank = 8;
    c.lora_targets = "q,gate";
    c.model.family = core::Family::Glm4;
  });
  refused("--mtp supports only data-parallel and expert-parallel ranks", [](TrainConfig& c) {
    c.model.n_tokens_ahead = 1;
    c.mesh.pipeline = 2;
  });
  refused("--mtp does not support --zero 3", [](TrainConfig& c) {
    c.model.n_tokens_ahead = 1;
    c.mesh = {.data = 2, .zero = 3};
  });
  refused("--mtp requires a --window of at least 2", [](TrainConfig& c) { c.model.n_tokens_ahead = c.window = 1; });
  refused("--tensor-parallel 3: the model has 4 heads", [](TrainConfig& c) {
    c.mesh.tensor = 3;
    c.window = 255;
  });
}

TEST(TrainConfig, RejectsFlagsWithoutEffect) {
  const auto is_momentum = [](const char* flag) { return std::string_view(flag) == "--momentum"; };
  EXPECT_EQ(test::error_of<core::UsageError>([&] { validate(TrainConfig(), {.typed = is_momentum}); }),
            "--momentum has no effect with --optimizer adamw; remove it or use --optimizer muon");
  EXPECT_NO_THROW(validate(TrainConfig(), {.given = is_momentum}));
}

TEST(TrainConfig, ConstantScheduleIgnoresMinLr) {
  TrainConfig c;
  c.schedule = ScheduleKind::Constant;
  c.min_lr = 2 * c.lr;
  EXPECT_NO_THROW(validate(c));
}

}  // namespace
}  // namespace folio::train
