#include "train/config/train_config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/json.h"

namespace folio::train {
namespace {

using core::UsageError;

// The default: under two minutes on two cores. Its windows are as long as its context: windows of 64 are cheaper, but
// leave the positions after 64 untrained, and reached a higher loss (1.636 against 1.607 after 2500 steps).
TrainConfig tiny() { return {}; }

// The lowest loss in two minutes on two cores: tiny with an output of its own, Muon, bfloat16 where it is faster, and
// twice the batch. experiments/LOG.md has what else was tried.
TrainConfig race() {
  TrainConfig c;
  c.preset = "race";
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

// tiny with experts: eight in each layer, of which a token takes two of half the width, so its work is tiny's.
TrainConfig experts() {
  TrainConfig c;
  c.preset = "experts";
  c.model.family = core::Family::Mixtral;
  c.model.n_experts = 8;
  c.model.experts_per_token = 2;
  c.model.expert_dim = c.model.hidden_dim / 2;
  c.model.hidden_dim = c.model.expert_dim;  // as a Mixtral's files say it
  c.model.normalize_routes = true;
  return c;
}

// The settings of the "Llama from scratch" tutorial's notebook: 4 layers, 8 heads, width 128, windows of 16, no
// schedule, no clipping. Not from there: AdamW with the library's decay (the notebook takes Adam), heads that share the
// width (there each is 128 wide), and a hidden width of 352 (128 there).
TrainConfig blog() {
  TrainConfig c;
  c.preset = "blog";
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
  c.validation_fraction = 0.1;
  c.test_fraction = 0.1;
  c.eval_every = 10;
  c.eval_batches = 10;
  c.sample = 0;
  c.checkpoint_every = 500;
  c.log_style = LogStyle::Epoch;
  return c;
}

// nanoGPT's "baby GPT" as a Llama: 10.7 M parameters. Two hours on two cores, minutes on a GPU. Beside nanoGPT: batches
// a quarter as large, Muon, an output of its own, and a rate that falls to 0 in 24 passes over the text.
TrainConfig baby() {
  TrainConfig c;
  c.preset = "baby";
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

// Adapters for a model that is there: some hundred steps at a rate that only adapters bear, which has fallen to 0 at
// the end.
TrainConfig of_adapters() {
  TrainConfig c;
  c.preset = "lora";
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

void validate_experts(const TrainConfig& c) {
  const core::FamilyInfo& family = core::info(c.model.family);
  const core::MixtureInfo& mixture = family.mixture;
  if (c.balance == Balance::Bias && !mixture.selection_bias) {
    throw UsageError(
        fmt::format("--balance bias moves a selection bias, which a {} lacks; take --balance loss, or leave "
                    "--family out",
                    family.name));
  }
  if (c.balance == Balance::Loss && mixture.score != core::RouterScore::Softmax) {
    throw UsageError(
        fmt::format("--balance loss is of probabilities, and the scores of a {} are none; take --balance "
                    "bias",
                    family.name));
  }
  if (c.model.shared_dim > 0 && !mixture.shared_gate && !mixture.deepseek_keys) {
    throw UsageError(fmt::format("a {} has no shared experts; leave --family out, or --shared-experts", family.name));
  }
  if (c.model.shared_dim == 0 && mixture.shared_gate) {
    throw UsageError(fmt::format("a {} has shared experts; take --shared-experts 1", family.name));
  }
  if (c.lora_rank > 0) throw UsageError("--lora-rank trains no adapters of a model with experts here");
  if (c.optimizer == OptimizerKind::GaLore) {
    throw UsageError("--optimizer galore takes matrices, not stacks of experts; take adamw or muon");
  }
  if (c.recompute) throw UsageError("--recompute computes no experts again; leave it out");
}

}  // namespace

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> kNames{"tiny", "race", "blog", "baby", "lora", "experts"};
  return kNames;
}

TrainConfig preset(const std::string& name) {
  const auto& names = preset_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw UsageError(
        fmt::format("--preset is \"{}\", but has to be one of: {}", core::printable(name), fmt::join(names, ", ")));
  }
  if (name == "race") return race();
  if (name == "blog") return blog();
  if (name == "baby") return baby();
  if (name == "lora") return of_adapters();
  if (name == "experts") return experts();
  return tiny();
}

void validate(const TrainConfig& c) {
  try {
    core::ModelConfig shape = c.model;
    shape.vocab_size = std::max<int64_t>(1, shape.vocab_size);  // 0 until the corpus is known
    core::validate(shape,
                   "--layers, --heads, --kv-heads, --dim, --head-dim, --hidden-dim, --experts, --context or "
                   "--sliding-window");
  } catch (const core::Error& error) {
    throw UsageError(error.what());
  }
  if (c.window > c.model.context_length) {
    throw UsageError(fmt::format("--window is {}, more than the --context of {}", c.window, c.model.context_length));
  }
  if (c.schedule != ScheduleKind::Constant && c.min_lr > c.lr) {
    throw UsageError(fmt::format("--min-lr is {}, more than the --lr of {}", c.min_lr, c.lr));
  }
  if (c.lora_rank > 0) {
    static_cast<void>(lora::lora_targets(c.lora_targets));
    if (c.device != DeviceKind::Cpu) throw UsageError("--lora-rank trains on a CPU; leave --device out");
    if (c.ema > 0.0) throw UsageError("--ema averages whole models; leave it out with --lora-rank");
    if (c.dropout > 0.0) throw UsageError("--dropout is for the whole model; with --lora-rank take --lora-dropout");
    if (c.optimizer == OptimizerKind::GaLore) {
      throw UsageError("--optimizer galore is for whole matrices; with --lora-rank take adamw or muon");
    }
  }
  if (c.model.n_experts > 0) validate_experts(c);
  if (c.validation_fraction + c.test_fraction >= 1.0) {
    throw UsageError(fmt::format("--validation-fraction {} and --test-fraction {} leave nothing to train on",
                                 c.validation_fraction, c.test_fraction));
  }
}

std::string field_key(const core::ConfigField& field) {
  const std::string flag = field.flag;
  std::string key = flag.substr(0, flag.find(','));
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

lora::LoraOptions lora_options(const TrainConfig& c) {
  return {.rank = c.lora_rank,
          .alpha = c.lora_alpha,
          .dropout = c.lora_dropout,
          .targets = lora::lora_targets(c.lora_targets)};
}

nlohmann::ordered_json to_json(const TrainConfig& config) {
  nlohmann::ordered_json json;
  json["preset"] = config.preset;
  core::ModelConfig::visit_fields(config.model,
                                  [&](const char* name, const auto& value, auto&&) { json["model"][name] = value; });
  TrainConfig::visit_fields(
      config, [&](const char*, const auto& value, const core::ConfigField& field) { json[field_key(field)] = value; });
  return json;
}

TrainConfig config_from_json(const nlohmann::json& json, const std::string& where) {
  TrainConfig config;
  config.fused = false;  // as older runs were, if they don't say
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
  TrainConfig::visit_fields(config, [&](const char*, auto& value, const core::ConfigField& field) {
    read(json, field_key(field), value, field.later);
  });
  return config;
}

std::string describe_difference(const TrainConfig& from, const TrainConfig& to) {
  // A run may go on on another device: where its GPU is gone, it could not go on at all.
  static const std::set<std::string> kHarmless{"eval_every", "checkpoint_every", "log_every", "log_style",
                                               "device",     "export",           "sample"};
  std::string difference = core::describe_difference(from.model, to.model);
  const auto before = to_json(from);
  const auto after = to_json(to);
  for (const auto& [key, value] : before.items()) {
    if (key == "model" || kHarmless.contains(key) || after[key] == value) continue;
    difference += fmt::format("{}{} {} -> {}", difference.empty() ? "" : ", ", key, value.dump(), after[key].dump());
  }
  return difference;
}

}  // namespace folio::train
