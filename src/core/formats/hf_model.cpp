#include "core/formats/hf_model.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/safetensors.h"
#include "core/json.h"
#include "core/rope_layout.h"

namespace folio::core {
namespace fs = std::filesystem;

namespace {

// The double with the float's shortest decimal form: 1e-05, not 9.999999747378752e-06. It rounds to the same float.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

// As HfWindow says. Where it is switched, max_window_layers counts the layers without a window.
void write_window(const ModelConfig& c, nlohmann::ordered_json& json) {
  const HfWindow window = info(c.family).window;
  const bool active = c.sliding_window > 0;
  if (window == HfWindow::None) return;
  json["sliding_window"] = active ? nlohmann::ordered_json(c.sliding_window) : nlohmann::ordered_json();
  if (window != HfWindow::Switched) return;
  json["use_sliding_window"] = active;
  json["max_window_layers"] = active ? 0 : c.n_layers;
}

}  // namespace

std::string config_to_hf_json(const ModelConfig& c, int64_t begin_of_text, int64_t end_of_text, DType type) {
  const char* dtype = type == DType::F16 ? "float16" : type == DType::BF16 ? "bfloat16" : "float32";
  nlohmann::ordered_json json = {
      {"architectures", {info(c.family).hf_class}},
      {"model_type", info(c.family).name},
      {"vocab_size", c.vocab_size},
      {"hidden_size", c.dim},
      {"num_hidden_layers", c.n_layers},
      {"num_attention_heads", c.n_heads},
      {"num_key_value_heads", c.n_kv_heads},
      {"head_dim", c.head_dim},
      {"intermediate_size", c.hidden_dim},
      {"max_position_embeddings", c.context_length},
      {"rope_theta", shortest(c.rope_theta)},
      {"rms_norm_eps", shortest(c.norm_eps)},
      {"tie_word_embeddings", c.tie_embeddings},
      {"hidden_act", "silu"},
      {"bos_token_id", begin_of_text},
      {"eos_token_id", end_of_text},
      {"dtype", dtype},
      {"torch_dtype", dtype},
  };
  write_window(c, json);
  if (const RopeScaling& s = c.rope_scaling; s.active()) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", shortest(s.factor)},
                            {"low_freq_factor", shortest(s.low_freq_factor)},
                            {"high_freq_factor", shortest(s.high_freq_factor)},
                            {"original_max_position_embeddings", s.original_context}};
  }
  return json.dump(2) + "\n";
}

namespace {

// transformers 4 calls this object rope_scaling; transformers 5 calls it rope_parameters and puts theta into it.
void read_rope(const nlohmann::json& rope, const std::string& where, ModelConfig& c) {
  if (rope.is_null()) return;
  require(rope.is_object(), "{}: the RoPE scaling {} is not supported here", where, printable(rope.dump()));
  if (rope.contains("rope_theta")) c.rope_theta = json_get<float>(rope, "rope_theta", where);
  const char* key = rope.contains("rope_type") || !rope.contains("type") ? "rope_type" : "type";
  const std::string type = rope.contains(key) ? json_get<std::string>(rope, key, where) : "default";
  if (type == "default") return;
  require(type == "llama3", "{}: RoPE scaling of type {} is not supported here", where, printable(type));
  c.rope_scaling = {.factor = json_get<float>(rope, "factor", where),
                    .low_freq_factor = json_get<float>(rope, "low_freq_factor", where),
                    .high_freq_factor = json_get<float>(rope, "high_freq_factor", where),
                    .original_context = json_get<int64_t>(rope, "original_max_position_embeddings", where)};
  if (!c.rope_scaling.active()) c.rope_scaling = {};
}

bool has(const nlohmann::json& json, const char* key) { return json.contains(key) && !json[key].is_null(); }

// How many of the layers have a sliding window, where it is switched on.
int64_t layers_with_window(const nlohmann::json& json, const std::string& where, int64_t n_layers) {
  if (has(json, "layer_types")) {
    int64_t count = 0;
    for (const nlohmann::json& type : json_list(json, "layer_types", where)) count += type == "sliding_attention";
    return count;
  }
  const int64_t without = has(json, "max_window_layers") ? json_get<int64_t>(json, "max_window_layers", where) : 28;
  return n_layers - std::clamp<int64_t>(without, 0, n_layers);
}

// What is missing in the file is what transformers takes.
int64_t read_window(const nlohmann::json& json, const std::string& where, const ModelConfig& c) {
  const HfWindow window = info(c.family).window;
  if (window == HfWindow::None) return 0;
  const bool on = window == HfWindow::Number ||
                  (has(json, "use_sliding_window") && json_get<bool>(json, "use_sliding_window", where));
  if (!on || (json.contains("sliding_window") && json["sliding_window"].is_null())) return 0;
  const int64_t layers = window == HfWindow::Number ? c.n_layers : layers_with_window(json, where, c.n_layers);
  if (layers == 0) return 0;
  require(layers == c.n_layers, "{}: a sliding window in {} of {} layers is not supported here", where, layers,
          c.n_layers);
  const int64_t positions = json.contains("sliding_window") ? json_get<int64_t>(json, "sliding_window", where) : 4096;
  require(positions > 0, "{}: sliding_window is {}, but has to be positive", where, positions);
  return positions;
}

}  // namespace

ModelConfig config_from_hf_json(const fs::path& path) {
  const std::string where = path.string();
  const nlohmann::json json = parse_json(read_text_file(path, size_t{16} << 20U), where);
  const FamilyInfo& family = family_named(json_get<std::string>(json, "model_type", where), where + ": model_type");
  const auto refuse = [&](const char* key, const auto& allowed) {
    require(!has(json, key) || json[key] == allowed, "{}: {} = {} is not supported here", where, key,
            [&] { return printable(json[key].dump()); });
  };
  refuse("hidden_act", "silu");
  refuse("attention_bias", false);
  refuse("mlp_bias", false);
  refuse("partial_rotary_factor", 1.0);
  for (const char* experts : {"num_experts", "num_local_experts", "n_routed_experts"}) refuse(experts, 0);
  ModelConfig c;
  c.family = family.family;
  c.vocab_size = json_get<int64_t>(json, "vocab_size", where);
  c.dim = json_get<int64_t>(json, "hidden_size", where);
  c.n_layers = json_get<int64_t>(json, "num_hidden_layers", where);
  c.n_heads = json_get<int64_t>(json, "num_attention_heads", where);
  c.n_kv_heads = has(json, "num_key_value_heads") ? json_get<int64_t>(json, "num_key_value_heads", where) : c.n_heads;
  c.hidden_dim = json_get<int64_t>(json, "intermediate_size", where);
  c.context_length = json_get<int64_t>(json, "max_position_embeddings", where);
  c.norm_eps = json_get<float>(json, "rms_norm_eps", where);
  c.rope_theta = json.contains("rope_theta") ? json_get<float>(json, "rope_theta", where) : 10000.0F;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (json.contains(key)) read_rope(json[key], where, c);
  }
  c.tie_embeddings = json.contains("tie_word_embeddings") && json_get<bool>(json, "tie_word_embeddings", where);
  if (has(json, "head_dim")) {
    c.head_dim = json_get<int64_t>(json, "head_dim", where);
  } else {
    c.head_dim = family.hf_head_dim > 0 ? family.hf_head_dim : even_head_dim(c.dim, c.n_heads, where);
  }
  validate(c, where);
  c.sliding_window = read_window(json, where, c);
  validate(c, where);
  return c;
}

namespace {

// Tensors of published files that are not weights: a computed table, and our own padding.
bool is_no_weight(const std::string& name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.starts_with("__pad__.");
}

// A directory's weight files in the order of their names, and their tensors by name.
struct Shards {
  std::vector<std::shared_ptr<const SafetensorsFile>> files;
  std::map<std::string, const TensorView*> tensors;

  void add(const fs::path& path) {
    files.push_back(std::make_shared<const SafetensorsFile>(path));
    for (const TensorView& tensor : files.back()->tensors()) {
      if (is_no_weight(tensor.name)) continue;
      require(tensors.emplace(tensor.name, &tensor).second, "{}: the tensor {} is also in another shard", path.string(),
              printable(tensor.name));
    }
  }
};

Shards open_index(const fs::path& path) {
  const std::string where = path.string();
  const nlohmann::json json = parse_json(read_text_file(path, size_t{64} << 20U), where);
  const nlohmann::json& map = json_at(json, "weight_map", where);
  require(map.is_object() && !map.empty(), "{}: weight_map is not an object that names tensors", where);
  std::map<std::string, std::string> file_of;
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.items()) {
    require(file.is_string(), "{}: the file of {} is not a string", where, printable(tensor));
    const auto name = file.get<std::string>();
    // A plain, printable name: an index must not refer to files outside its directory.
    require(!name.empty() && fs::path(name).filename() == fs::path(name) && name != ".." && name != "." &&
                printable(name, 255) == name,
            "{}: the shard \"{}\" is not a file name in this directory", where, printable(name));
    file_of[tensor] = name;
    names.insert(name);
  }
  Shards shards;
  for (const std::string& name : names) {
    shards.add(path.parent_path() / name);
    for (const TensorView& tensor : shards.files.back()->tensors()) {
      const auto listed = file_of.find(tensor.name);
      require(is_no_weight(tensor.name) || (listed != file_of.end() && listed->second == name),
              "{}: the tensor {} in {} is not listed there", where, printable(tensor.name), name);
    }
  }
  for (const auto& [tensor, name] : file_of) {
    require(is_no_weight(tensor) || shards.tensors.contains(tensor), "{}: the tensor {} is not in {}", where,
            printable(tensor), name);
  }
  return shards;
}

Shards open_weights(const fs::path& directory) {
  const fs::path single = directory / "model.safetensors";
  const fs::path index = directory / "model.safetensors.index.json";
  std::error_code error;
  if (!fs::exists(single, error) && fs::exists(index, error)) return open_index(index);
  Shards shards;
  shards.add(single);
  return shards;
}

}  // namespace

StoredModel read_hf_model(const fs::path& directory) {
  require(fs::exists(directory / "config.json") || !fs::exists(directory / "adapter_config.json"),
          "{} is an adapter, not a model: name its base, and the adapter by --lora (export: --merge)",
          directory.string());
  StoredModel model{.path = directory.string(),
                    .format = ModelFormat::HuggingFace,
                    .config = config_from_hf_json(directory / "config.json"),
                    .tensors = {},
                    .storage = {},
                    .gguf = {}};
  Shards shards = open_weights(directory);
  const std::string where = shards.files.size() == 1 ? shards.files[0]->path().string() : directory.string();
  const int64_t head_dim = model.config.head_dim;
  for (const TensorSpec& spec : tensor_manifest(model.config)) {
    const auto found = shards.tensors.find(spec.hf_name);
    require(found != shards.tensors.end(), "{}: the tensor {} of shape {} is missing", where, spec.hf_name,
            shape_string(spec.shape));
    TensorView view = *found->second;
    shards.tensors.erase(found);
    require(view.shape == spec.shape, "{}: tensor {} has shape {}, but config.json requires {}", where, spec.hf_name,
            shape_string(view.shape), shape_string(spec.shape));
    require_weight_type(view, where);
    if (spec.rope_permuted) {
      auto rows = std::make_shared<std::vector<std::byte>>(view.bytes.size());
      split_halves_to_adjacent(view.bytes, *rows, spec.shape[0] / head_dim, head_dim,
                               static_cast<int64_t>(view.bytes.size()) / spec.shape[0]);
      for (const auto& file : shards.files) file->release(view);  // only the copy is used from here on
      view.bytes = *rows;
      model.storage.push_back(std::move(rows));
    }
    model.tensors.push_back(std::move(view));
  }
  // Some files store a tied embedding a second time, as the output.
  const auto head = shards.tensors.find("lm_head.weight");
  const TensorView& embedding = model.tensors.front();
  if (head != shards.tensors.end() && head->second->type == embedding.type &&
      std::ranges::equal(head->second->bytes, embedding.bytes)) {
    shards.tensors.erase(head);
  }
  if (!shards.tensors.empty()) fail_extra_tensor(where, shards.tensors.begin()->first, model.config.family);
  model.storage.insert(model.storage.end(), shards.files.begin(), shards.files.end());
  return model;
}

Weights read_hf_directory(const fs::path& directory) { return to_weights(read_hf_model(directory)); }

namespace {

// The same tensors with Hugging Face's names and row order.
TensorStream hf_stream(const ModelConfig& config, const TensorStream& stream) {
  const auto manifest = tensor_manifest(config);
  std::vector<TensorView> tensors = stream.tensors;
  for (size_t i = 0; i < manifest.size(); ++i) tensors.at(i).name = manifest[i].hf_name;
  return {tensors, [=, rows = std::vector<std::byte>()](size_t i) mutable {
            const auto bytes = checked_bytes(stream, i);
            if (!manifest[i].rope_permuted) return bytes;
            rows.resize(bytes.size());
            const int64_t n_rows = manifest[i].shape[0];
            adjacent_to_split_halves(bytes, rows, n_rows / config.head_dim, config.head_dim,
                                     static_cast<int64_t>(bytes.size()) / n_rows);
            return std::span<const std::byte>(rows);
          }};
}

uint64_t bytes_of(const TensorView& tensor) {
  const auto bytes = tensor_bytes(tensor.type, tensor.shape);
  require(bytes.has_value(), "the tensor {} has no valid size", printable(tensor.name));
  return *bytes;
}

// For each shard, the index after its last tensor.
std::vector<size_t> shard_ends(const std::vector<TensorView>& tensors, uint64_t max_bytes) {
  std::vector<size_t> ends;
  uint64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t next = bytes_of(tensors[i]);
    if (bytes > 0 && bytes + next > max_bytes) {
      ends.push_back(i);
      bytes = 0;
    }
    bytes += next;
  }
  ends.push_back(tensors.size());
  return ends;
}

void write_shards(const fs::path& directory, const TensorStream& stream, const std::vector<size_t>& ends) {
  nlohmann::ordered_json index = {{"metadata", {{"total_size", 0}}}, {"weight_map", nlohmann::ordered_json::object()}};
  uint64_t total = 0;
  size_t begin = 0;
  for (size_t n = 0; n < ends.size(); ++n) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", n + 1, ends.size());
    TensorStream shard({}, [&, begin](size_t i) { return stream.bytes(begin + i); });
    for (size_t i = begin; i < ends[n]; ++i) {
      shard.tensors.push_back(stream.tensors[i]);
      index["weight_map"][stream.tensors[i].name] = name;
      total += bytes_of(stream.tensors[i]);
    }
    write_safetensors(directory / name, shard);
    begin = ends[n];
  }
  index["metadata"]["total_size"] = total;
  write_file_atomically(directory / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace

void write_hf_model(const fs::path& directory, const ModelConfig& config, const TensorStream& stream,
                    int64_t begin_of_text, int64_t end_of_text, uint64_t max_shard_bytes) {
  const TensorStream hf = hf_stream(config, stream);
  const auto ends = shard_ends(hf.tensors, max_shard_bytes);
  if (ends.size() == 1) {
    write_safetensors(directory / "model.safetensors", hf);
  } else {
    write_shards(directory, hf, ends);
  }
  const DType type = hf.tensors.at(0).type;  // the embedding's: a matrix
  write_file_atomically(directory / "config.json", config_to_hf_json(config, begin_of_text, end_of_text, type));
}

void write_hf_directory(const fs::path& directory, const Weights& weights, int64_t end_of_text) {
  write_hf_model(directory, weights.config, weights.views(), end_of_text, end_of_text);
}

void write_hf_tensors(const fs::path& file, const Weights& weights) {
  write_safetensors(file, hf_stream(weights.config, weights.views()));
}

}  // namespace folio::core
