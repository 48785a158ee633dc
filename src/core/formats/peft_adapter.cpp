#include "core/formats/peft_adapter.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/safetensors.h"
#include "core/json.h"
#include "core/rope_layout.h"
#include "core/weights.h"

namespace folio::core {
namespace {

using Json = nlohmann::json;

struct Scaling {
  int64_t rank;
  double alpha;
  bool by_root;  ///< rank-stabilized (Kalajdzievski 2023): alpha / sqrt(rank)

  [[nodiscard]] float of(float factor) const {
    const auto r = static_cast<double>(rank);
    return static_cast<float>(factor * alpha / (by_root ? std::sqrt(r) : r));
  }
};

// What a plain LoRA says of itself, and what mattered only while it was trained. Any other key may be of a variant that
// computes something else.
constexpr std::string_view kPlain[] = {"auto_mapping",
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
                                       "revision",
                                       "target_modules",
                                       "task_type",
                                       "use_rslora"};

// What is absent, null, false, empty or "none" changes nothing.
bool is_off(const Json& config, const std::string& key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return true;
  if (found->is_boolean()) return !found->get<bool>();
  if (found->is_string()) return *found == "none" || *found == "";
  return (found->is_object() || found->is_array()) && found->empty();
}

Scaling read_config(const std::filesystem::path& path, float factor) {
  constexpr size_t kMostBytes = size_t{1} << 20U;
  const std::string where = path.string();
  const Json config = parse_json(read_text_file(path, kMostBytes), where);
  require(config.is_object(), "{}: it is not a JSON object", where);
  const auto type = json_get<std::string>(config, "peft_type", where);
  require(type == "LORA", "{}: the adapter is of the type {}, but only LORA runs here", where, printable(type));
  for (const auto& [key, value] : config.items()) {
    require(
        std::ranges::find(kPlain, key) != std::end(kPlain) || is_off(config, key),
        "{}: \"{}\" is {}, which is not supported; only a plain LoRA of linear layers is", where,
        [&] { return printable(key); }, [&] { return printable(value.dump()); });
  }
  const auto init = config.find("init_lora_weights");
  require(init == config.end() || !init->is_string() || *init == "gaussian" || *init == "orthogonal" || *init == "eva",
          "{}: \"init_lora_weights\" is {}, which changes the base model, too; convert the adapter with peft's "
          "path_initial_model_for_weight_conversion",
          where, [&] { return printable(init->dump()); });
  Scaling scaling{.rank = json_get<int64_t>(config, "r", where),
                  .alpha = json_get<double>(config, "lora_alpha", where),
                  .by_root = !is_off(config, "use_rslora")};
  require(scaling.rank >= 1 && scaling.rank <= kMaxAdapterRank, "{}: the rank \"r\" is {}, but has to be in [1, {}]",
          where, scaling.rank, kMaxAdapterRank);
  require(std::isfinite(scaling.of(factor)), "{}: \"lora_alpha\" is {}, which makes a scale that is no finite number",
          where, scaling.alpha);
  return scaling;
}

std::vector<float> floats_of(const SafetensorsFile& file, const TensorView& tensor, int64_t rows, int64_t columns) {
  const std::string where = file.path().string();
  const std::vector<int64_t> shape{rows, columns};
  require(tensor.shape == shape, "{}: tensor {} has shape {}, but the model and the rank require {}", where,
          tensor.name, shape_string(tensor.shape), shape_string(shape));
  require(tensor.type == DType::F32 || tensor.type == DType::F16 || tensor.type == DType::BF16,
          "{}: tensor {} is {}, but has to be F32, F16 or BF16", where, tensor.name, info(tensor.type).name);
  return to_floats(tensor);
}

std::vector<float> in_order_of_pairs(const std::vector<float>& rows, int64_t n_heads, int64_t head_dim, size_t rank) {
  std::vector<float> out(rows.size());
  split_halves_to_adjacent(std::as_bytes(std::span(rows)), std::as_writable_bytes(std::span(out)), n_heads, head_dim,
                           static_cast<int64_t>(rank * sizeof(float)));
  return out;
}

// [s1 B1, s2 B2] [A1; A2]
Adapter::Part behind_each_other(const Adapter::Part& one, const Adapter::Part& two) {
  Adapter::Part both{
      .role = one.role, .layer = one.layer, .rank = one.rank + two.rank, .scale = 1.0F, .a = one.a, .b = {}};
  both.a.insert(both.a.end(), two.a.begin(), two.a.end());
  both.b.reserve(one.b.size() + two.b.size());
  for (size_t i = 0; i < one.b.size() / one.rank; ++i) {
    for (const Adapter::Part* part : {&one, &two}) {
      for (size_t j = 0; j < part->rank; ++j) both.b.push_back(part->scale * part->b[i * part->rank + j]);
    }
  }
  return both;
}

}  // namespace

Adapter read_adapter(const std::filesystem::path& directory, const ModelConfig& config, float factor) {
  const Scaling scaling = read_config(directory / "adapter_config.json", factor);
  const std::filesystem::path weights = directory / "adapter_model.safetensors";
  require(
      std::filesystem::exists(weights) || !std::filesystem::exists(directory / "adapter_model.bin"),
      "{} has its weights in adapter_model.bin, which is not read here; save it with peft's safe_serialization=True",
      directory.string());
  const SafetensorsFile file(weights);
  const std::string where = file.path().string();
  std::set<std::string> left;  // names that no part has taken
  for (const TensorView& tensor : file.tensors()) left.insert(tensor.name);

  Adapter adapter{.path = directory.string(), .parts = {}};
  for (const TensorSpec& spec : tensor_manifest(config)) {
    if (spec.layer < 0 || spec.shape.size() != 2) continue;
    const std::string module = "base_model.model." + spec.hf_name.substr(0, spec.hf_name.rfind('.'));
    const TensorView* a = file.find_tensor(module + ".lora_A.weight");
    const TensorView* b = file.find_tensor(module + ".lora_B.weight");
    if (a == nullptr && b == nullptr) continue;
    require(a != nullptr && b != nullptr, "{}: {} has only one of lora_A and lora_B", where, module);
    Adapter::Part part{.role = spec.role,
                       .layer = spec.layer,
                       .rank = static_cast<size_t>(scaling.rank),
                       .scale = scaling.of(factor),
                       .a = floats_of(file, *a, scaling.rank, spec.shape[1]),
                       .b = floats_of(file, *b, spec.shape[0], scaling.rank)};
    if (spec.rope_permuted) {
      part.b = in_order_of_pairs(part.b, spec.shape[0] / config.head_dim, config.head_dim, part.rank);
    }
    left.erase(a->name);
    left.erase(b->name);
    adapter.parts.push_back(std::move(part));
  }
  require(left.empty(),
          "{}: the tensor {} belongs to no linear layer of the model's {} blocks; only those are adapted here", where,
          printable(left.empty() ? "" : *left.begin()), config.n_layers);
  require(!adapter.parts.empty(), "{}: there is no adapter in it", where);
  return adapter;
}

Adapter sum_of(std::span<const Adapter> adapters) {
  Adapter sum = adapters.front();
  for (const Adapter& adapter : adapters.subspan(1)) {
    sum.path += " and " + adapter.path;
    for (const Adapter::Part& part : adapter.parts) {
      const auto found = std::ranges::find_if(
          sum.parts, [&](const Adapter::Part& p) { return p.role == part.role && p.layer == part.layer; });
      if (found == sum.parts.end()) {
        sum.parts.push_back(part);
      } else {
        *found = behind_each_other(*found, part);
        require(found->rank <= kMaxAdapterRank, "{} have together the rank {}, but at most {} is possible", sum.path,
                found->rank, kMaxAdapterRank);
      }
    }
  }
  std::ranges::stable_sort(sum.parts, {}, [](const Adapter::Part& p) { return std::pair(p.layer, p.role); });
  return sum;
}

}  // namespace folio::core
