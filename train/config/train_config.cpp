#include "train/config/train_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/json.h"

namespace folio::train {
namespace {

// The default preset: trains in under two minutes on two CPU cores.
TrainConfig tiny() { return {}; }

// The preset with the lowest loss after two minutes on two cores. experiments/LOG.md records the alternatives tried.
TrainConfig race() {
  TrainConfig c;
  c.steps = 2000;
  c.batch_size = 8;
  c.model.tie_embeddings = false;
  c.optimizer = OptimizerKind::Muon;
  c.momentum = 0.9;
  c.dtype = Precision::Auto;
  c.schedule = ScheduleKind::Linear;
  c.lr = 6e-3;
  c.min_lr = 0.0;
  c.eval_every = 1000;
  c.checkpoint_every = 1000;
  c.exported = Exported::Last;
  return c;
}

// "tiny" with eight experts per layer. A token uses two, each with half the hidden width, so its FLOPs stay the same.
TrainConfig experts() {
  TrainConfig c;
  c.model.family = core::Family::Mixtral;
  c.model.n_experts = 8;
  c.model.experts_per_token = 2;
  c.model.expert_dim = c.model.hidden_dim / 2;
  c.model.hidden_dim = c.model.expert_dim;  // as in Mixtral's config.json, where one size is stored for both
  c.model.normalize_routes = true;
  return c;
}

// Settings of the notebook of B. Kitano's "Llama from scratch": 4 layers, 8 heads, width 128, windows of 16, no
// schedule, no clipping. Differences: AdamW with LibTorch's default weight decay (notebook: Adam), heads that divide
// the width (notebook: each 128 wide), and a hidden width of 352 (notebook: 128).
TrainConfig blog() {
  TrainConfig c;
  c.model = {.dim = 128,
             .n_layers = 4,
             .n_heads = 8,
             .n_kv_heads = 8,
             .hidden_dim = 352,
             .context_length = 16,
             .norm_eps = 1e-6F,
             .tie_embeddings = false};
  c.steps = 1000;
  c.batch_size = 32;
  c.window = 16;
  c.lr = 1e-3;
  c.schedule = ScheduleKind::Constant;
  c.warmup_steps = 0;
  c.beta2 = 0.999;
  c.weight_decay = 0.01;
  c.decay_norms = true;
  c.clip = 0.0;
  c.test_fraction = 0.1;
  c.eval_every = 10;
  c.eval_batches = 10;
  c.sample = 0;
  c.log_style = LogStyle::Epoch;
  return c;
}

// nanoGPT's "baby GPT" as a Llama: 10.7 M parameters, two hours on two cores, minutes on a GPU. Differences: a quarter
// of the batch size, Muon, an untied output head, and a learning rate that decays to 0 over 24 epochs.
TrainConfig baby() {
  TrainConfig c;
  c.model = {.dim = 384,
             .n_layers = 6,
             .n_heads = 6,
             .n_kv_heads = 6,
             .hidden_dim = 1024,
             .context_length = 256,
             .tie_embeddings = false};
  c.steps = 5800;
  c.batch_size = 16;
  c.optimizer = OptimizerKind::Muon;
  c.dtype = Precision::Auto;
  c.schedule = ScheduleKind::Linear;
  c.min_lr = 0.0;
  c.dropout = 0.25;
  return c;
}

// The preset for LoRA: a few hundred steps, with a learning rate that is too high for full fine-tuning and decays to 0.
TrainConfig of_adapters() {
  TrainConfig c;
  c.lora_rank = 8;
  c.steps = 200;
  c.lr = 1e-3;
  c.min_lr = 0.0;
  c.schedule = ScheduleKind::Linear;
  c.warmup_steps = 10;
  c.beta2 = 0.999;
  c.weight_decay = 0.0;
  c.dtype = Precision::Auto;
  c.eval_every = 50;
  c.checkpoint_every = 50;
  return c;
}

// Returns a field's key in files: the flag's first name with '_' for '-', such as "steps" for "steps,--max-iters".
std::string field_key(const core::ConfigField& field) {
  const std::string flag = field.flag;
  std::string key = flag.substr(0, flag.find(','));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

constexpr std::array<std::pair<const char*, TrainConfig (*)()>, 6> kPresets{
    {{"tiny", tiny}, {"race", race}, {"blog", blog}, {"baby", baby}, {"lora", of_adapters}, {"experts", experts}}};

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : kPresets) names.emplace_back(name);
  return names;
}

TrainConfig preset(const std::string& name) {
  for (const auto& [known, make] : kPresets) {
    if (known != name) continue;
    TrainConfig c = make();
    c.preset = name;
    return c;
  }
  throw core::UsageError(
      fmt::format("--preset is \"{}\", expected one of: {}", core::printable(name), fmt::join(preset_names(), ", ")));
}

core::AdapterInfo adapter_info(const TrainConfig& c) {
  return {.rank = c.lora_rank,
          .alpha = c.lora_alpha,
          .dropout = c.lora_dropout,
          .targets = lora::lora_targets(c.lora_targets),
          .base = {}};
}

nlohmann::ordered_json to_json(const TrainConfig& config) {
  nlohmann::ordered_json json;
  json["preset"] = config.preset;
  core::ModelConfig::visit_fields(config.model,
                                  [&](const char* name, const auto& value, auto&&) { json["model"][name] = value; });
  TrainConfig::visit_fields(config, [&](const char*, const auto& value, const TrainField& field) {
    if (field.kept == Kept::InFiles) json[field_key(field)] = value;
  });
  return json;
}

TrainConfig config_from_json(const nlohmann::json& json, const std::string& where) {
  TrainConfig config;
  config.fused = false;  // the default for files of older versions, which lack the key
  config.preset = core::json_get<std::string>(json, "preset", where);
  const auto model = core::json_get<nlohmann::json>(json, "model", where);
  const auto read = [&](const nlohmann::json& from, const std::string& key, auto& value, bool later) {
    if (later && !from.contains(key)) return;
    try {
      value = core::json_get<std::decay_t<decltype(value)>>(from, key, where);
    } catch (const core::Error& error) {
      if (std::string_view(error.what()).starts_with(where)) throw;
      core::fail("{}: the key \"{}\": {}", where, key, error.what());
    }
  };
  core::ModelConfig::visit_fields(config.model, [&](const char* name, auto& value, const core::ConfigField& field) {
    read(model, name, value, field.later);
  });
  if (!model.contains("head_dim")) {
    config.model.head_dim = core::even_head_dim(config.model.dim, config.model.n_heads, where);
  }
  TrainConfig::visit_fields(config, [&](const char*, auto& value, const TrainField& field) {
    if (field.kept != Kept::InFiles) return;
    read(json, field_key(field), value, field.later);
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) {
      const auto number = static_cast<double>(value);
      core::require(field.low == field.high || (number >= field.low && number <= field.high),
                    "{}: the key \"{}\" is {}, expected a number in [{:.10g}, {:.10g}]", where, field_key(field), value,
                    field.low, field.high);
    }
  });
  return config;
}

std::string describe_difference(const nlohmann::ordered_json& from, const nlohmann::ordered_json& to) {
  std::vector<std::string> differences;
  for (const auto& [key, value] : from.items()) {
    if (to[key] != value) differences.push_back(fmt::format("{} {} -> {}", key, value.dump(), to[key].dump()));
  }
  return fmt::format("{}", fmt::join(differences, ", "));
}

std::string describe_difference(const TrainConfig& from, const TrainConfig& to) {
  const std::string of_models = core::describe_difference(from.model, to.model);
  auto before = to_json(from), after = to_json(to);
  before["minutes"] = from.minutes;
  after["minutes"] = to.minutes;
  // Excludes the model, which is compared above, and settings that a resumed run may change, such as its device.
  for (const char* key :
       {"model", "eval_every", "checkpoint_every", "log_every", "log_style", "device", "export", "sample"}) {
    before.erase(key);
  }
  const std::string of_runs = describe_difference(before, after);
  return of_models + (of_models.empty() || of_runs.empty() ? "" : ", ") + of_runs;
}

}  // namespace folio::train
