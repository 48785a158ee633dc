#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/formats/adapter_files.h"
#include "core/formats/adapter_tensors.h"
#include "core/formats/model_files.h"
#include "core/formats/module_pattern.h"
#include "core/formats/safetensors.h"
#include "core/json.h"
#include "core/rope_layout.h"

namespace folio::core {
namespace {

using Json = nlohmann::json;

constexpr const char* kConfig = "adapter_config.json";
constexpr const char* kWeights = "adapter_model.safetensors";
constexpr const char* kBase = "base_model_name_or_path";
constexpr std::string_view kPrefix = "base_model.model.";  // prefix of all tensor names in the file

// Keys of a plain LoRA configuration, and keys that only affect training. Any other key may select a variant with
// another formula, so it is an error unless its value turns the variant off.
constexpr std::string_view kPlain[] = {"alpha_pattern",
                                       "auto_mapping",
                                       "base_model_name_or_path",
                                       "ensure_weight_tying",
                                       "eva_config",
                                       "exclude_modules",
                                       "inference_mode",
                                       "init_lora_weights",
                                       "layers_pattern",
                                       "layers_to_transform",
                                       "loftq_config",
                                       "lora_alpha",
                                       "lora_dropout",
                                       "megatron_config",
                                       "megatron_core",
                                       "peft_type",
                                       "peft_version",
                                       "qalora_group_size",
                                       "r",
                                       "rank_pattern",
                                       "revision",
                                       "target_modules",
                                       "task_type",
                                       "use_rslora"};

// Returns true if the key is absent or its value disables the feature: null, false, empty or "none".
bool is_off(const Json& config, const std::string& key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return true;
  if (found->is_boolean()) return !found->get<bool>();
  if (found->is_string()) return *found == "none" || *found == "";
  return (found->is_object() || found->is_array()) && found->empty();
}

// The settings in adapter_config.json, except target_modules.
struct PeftConfig {
  /// Regular expressions, each with a rank or alpha, in file order. The first that matches a module's name applies.
  using Pattern = std::vector<std::pair<std::string, double>>;

  std::string where;
  AdapterInfo info{};
  Pattern ranks{};
  Pattern alphas{};
  WorkBudget budget{kPatternSteps};

  [[nodiscard]] AdapterInfo of_module(const std::string& module) const {
    const auto value = [&](const Pattern& pattern, const char* name, double otherwise) {
      for (const auto& [key, of_key] : pattern) {
        if (names_module(key, module, fmt::format("{}: \"{}\"", where, name), budget)) return of_key;
      }
      return otherwise;
    };
    AdapterInfo own = info;
    own.rank = static_cast<int64_t>(value(ranks, "rank_pattern", static_cast<double>(info.rank)));
    own.alpha = value(alphas, "alpha_pattern", info.alpha);
    return own;
  }
};

PeftConfig::Pattern pattern_of(const Json& config, const std::string& text, const char* name,
                               const std::string& where) {
  PeftConfig::Pattern pattern;
  if (is_off(config, name)) return pattern;
  require(config[name].is_object(), "{}: \"{}\" is not a JSON object", where, name);
  const OrderedJson ordered = parse_ordered_json(text, where);
  for (const auto& [key, value] : ordered.at(name).items()) {
    const bool is_rank = std::string_view(name) == "rank_pattern";
    const double number = value.is_number() ? value.get<double>() : 0.0;
    const bool fits = is_rank ? value.is_number_integer() && number >= 1 && number <= kMaxAdapterRank
                              : value.is_number() && std::isfinite(static_cast<float>(number));
    if (!fits) {
      fail("{}: \"{}\" has {} for {}, expected {}", where, name, printable(value.dump(), 40), printable(key, 80),
           is_rank ? fmt::format("an integer in [1, {}]", kMaxAdapterRank) : std::string("a finite number"));
    }
    pattern.emplace_back(key, number);
  }
  return pattern;
}

PeftConfig read_config(const std::filesystem::path& path, float factor) {
  constexpr size_t kMostBytes = size_t{1} << 20U;
  const std::string where = path.string();
  const std::string text = read_text_file(path, kMostBytes);
  const Json config = parse_json(text, where);
  require(config.is_object(), "{}: not a JSON object", where);
  const auto type = json_get<std::string>(config, "peft_type", where);
  require(type == "LORA", "{}: peft_type is {}, expected LORA", where, printable(type));
  for (const auto& [key, value] : config.items()) {
    require(
        std::ranges::find(kPlain, key) != std::end(kPlain) || is_off(config, key),
        "{}: \"{}\" is {}, which is not supported; only a plain LoRA of linear layers is", where,
        [&] { return printable(key); }, [&] { return printable(value.dump()); });
  }
  const auto init = config.find("init_lora_weights");
  require(init == config.end() || !init->is_string() || *init == "gaussian" || *init == "orthogonal" || *init == "eva",
          "{}: \"init_lora_weights\" is {}, which also changes the base model; convert the adapter with peft's "
          "path_initial_model_for_weight_conversion",
          where, [&] { return printable(init->dump()); });
  AdapterInfo info{.rank = json_get<int64_t>(config, "r", where),
                   .alpha = json_get<double>(config, "lora_alpha", where),
                   .dropout = is_off(config, "lora_dropout") ? 0 : json_get<double>(config, "lora_dropout", where),
                   .targets = {},
                   .base = is_off(config, kBase) ? "" : json_get<std::string>(config, kBase, where),
                   .by_root = !is_off(config, "use_rslora")};
  require(info.rank >= 1 && info.rank <= kMaxAdapterRank, "{}: the rank \"r\" is {}, but must be in [1, {}]", where,
          info.rank, kMaxAdapterRank);
  require(std::isfinite(info.scale(factor)), "{}: \"lora_alpha\" is {}, but the resulting scale must be finite", where,
          info.alpha);
  return {.where = where,
          .info = std::move(info),
          .ranks = pattern_of(config, text, "rank_pattern", where),
          .alphas = pattern_of(config, text, "alpha_pattern", where)};
}

// Describes how the model's configuration differs from that of the adapter's base model. Returns "" if they are equal,
// or if the base model can't be read.
std::string base_difference(const AdapterInfo& adapter, const ModelConfig& config) {
  std::error_code error;
  if (!std::filesystem::exists(adapter.base, error)) return "";
  try {
    ModelConfig base = read_model_config(adapter.base);
    base.n_tokens_ahead = config.n_tokens_ahead;  // config.json may list an MTP module that the weights lack
    const std::string difference = describe_difference(base, config);
    if (difference.empty()) return "";
    return fmt::format("; its base model {} differs: {}", printable(adapter.base), printable(difference, 120));
  } catch (const Error&) {
    return "";
  }
}

std::filesystem::path weights_of(const std::filesystem::path& directory) {
  const std::filesystem::path weights = directory / kWeights;
  require(
      path_exists(weights) || !path_exists(directory / "adapter_model.bin"),
      "{} stores its weights in adapter_model.bin, which is not supported; save it with peft's safe_serialization=True",
      directory.string());
  return weights;
}

// Returns the name of the module that contains the matrix, such as "model.layers.0.self_attn.q_proj".
std::string module_of(const TensorSpec& spec) { return spec.hf_name.substr(0, spec.hf_name.rfind('.')); }

// Returns peft's target_modules: types such as "q_proj" if they are adapted in all layers, otherwise full names.
std::vector<std::string> target_modules(const ModelConfig& config, const Adapter& adapter) {
  const bool all = adapter.parts.size() == roles_of(adapter).size() * static_cast<size_t>(config.n_layers);
  std::vector<std::string> names;
  for (const TensorSpec& spec : adaptable_matrices(config)) {
    if (adapter.find(spec.role, spec.layer) == nullptr) continue;
    const std::string module = module_of(spec);
    const std::string name = all ? module.substr(module.rfind('.') + 1) : module;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

// Returns the text of adapter_config.json, with keys that every version of peft accepts.
std::string config_text(const ModelConfig& config, const Adapter& adapter, const AdapterInfo& info) {
  const bool whole = info.alpha == std::floor(info.alpha) && std::abs(info.alpha) < 1e9;
  const auto alpha = whole ? OrderedJson(static_cast<int64_t>(info.alpha)) : OrderedJson(info.alpha);
  return OrderedJson{{kBase, info.base.empty() ? OrderedJson() : OrderedJson(info.base)},
                     {"bias", "none"},
                     {"fan_in_fan_out", false},
                     {"inference_mode", true},
                     {"init_lora_weights", true},
                     {"lora_alpha", alpha},
                     {"lora_dropout", info.dropout},
                     {"modules_to_save", OrderedJson()},
                     {"peft_type", "LORA"},
                     {"r", info.rank},
                     {"target_modules", target_modules(config, adapter)},
                     {"task_type", "CAUSAL_LM"},
                     {"use_dora", false},
                     {"use_rslora", info.by_root}}
             .dump(2, ' ', false, OrderedJson::error_handler_t::replace) +
         "\n";
}

}  // namespace

Adapter read_peft_adapter(const std::filesystem::path& directory, const ModelConfig& config, float factor) {
  const PeftConfig peft = read_config(directory / kConfig, factor);
  const SafetensorsFile file(weights_of(directory));
  const AdapterTensors tensors{.all = file.tensors(),
                               .name = [](const TensorSpec& spec) { return std::string(kPrefix) + module_of(spec); },
                               .endings = {"lora_A", "lora_B"},
                               .tail = ".weight",
                               .where = file.path().string(),
                               .why = [&] { return base_difference(peft.info, config); }};
  const auto scaling = [&](const TensorSpec& spec, const TensorView&) {
    const AdapterInfo info = peft.of_module(module_of(spec));
    return std::pair(info.rank, info.scale(factor));
  };
  Adapter adapter{.path = directory.string(), .parts = adapter_parts(tensors, config, scaling)};
  const auto matrices = adaptable_matrices(config);
  for (Adapter::Part& part : adapter.parts) {
    if (!matrix_of(part, matrices, tensors.where).rope_permuted) continue;
    part.b = reordered_rows(RopePairs::Adjacent, part.b, config.head_dim, part.rank);
  }
  return adapter;
}

AdapterInfo read_adapter_info(const std::filesystem::path& directory) {
  return read_config(directory / kConfig, 1.0F).info;
}

void write_adapter(const std::filesystem::path& directory, const ModelConfig& config, const Adapter& adapter,
                   const AdapterInfo& info) {
  const std::string where = directory.string();
  require_parts_of(adapter, info, where);
  std::vector<TensorView> tensors;
  std::vector<std::vector<float>> permuted;  // owns the reordered B matrices; `tensors` has views of them
  const auto matrices = adaptable_matrices(config);
  for (const Adapter::Part& part : adapter.parts) {
    const TensorSpec& spec = matrix_of(part, matrices, where);
    const auto rank = static_cast<int64_t>(part.rank);
    const std::string module = std::string(kPrefix) + module_of(spec);
    std::span<const float> b = part.b;
    if (spec.rope_permuted) {
      b = permuted.emplace_back(reordered_rows(RopePairs::Halves, part.b, config.head_dim, part.rank));
    }
    tensors.push_back({.name = module + ".lora_A.weight",
                       .type = DType::F32,
                       .shape = {rank, spec.shape[1]},
                       .bytes = std::as_bytes(std::span(part.a))});
    tensors.push_back({.name = module + ".lora_B.weight",
                       .type = DType::F32,
                       .shape = {spec.shape[0], rank},
                       .bytes = std::as_bytes(b)});
  }
  write_safetensors(directory / kWeights, tensors, {{"format", "pt"}}, sizeof(float));  // this alignment avoids padding
  write_file_atomically(directory / kConfig, config_text(config, adapter, info));
}

}  // namespace folio::core
