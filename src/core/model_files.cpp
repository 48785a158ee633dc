#include "core/model_files.h"

#include "core/error.h"
#include "core/file_io.h"
#include "core/json.h"
#include "core/rope_layout.h"
#include "core/safetensors.h"

namespace folio::core {
namespace fs = std::filesystem;

ModelConfig config_from_gguf(const GgufFile& file) {
  const std::string where = file.path().string();
  const std::string& architecture = file.string("general.architecture");
  require(architecture == "llama", "{}: the architecture is {}, but only llama is run here", where,
          printable(architecture));
  ModelConfig c;
  c.dim = file.integer("llama.embedding_length");
  c.n_layers = file.integer("llama.block_count");
  c.n_heads = file.integer("llama.attention.head_count");
  c.n_kv_heads = file.integer("llama.attention.head_count_kv", c.n_heads);
  c.hidden_dim = file.integer("llama.feed_forward_length");
  c.context_length = file.integer("llama.context_length");
  c.rope_theta = file.real("llama.rope.freq_base", 10000.0F);
  c.norm_eps = file.real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  c.tie_embeddings = file.find_tensor("output.weight") == nullptr;
  const TensorView* embedding = file.find_tensor("token_embd.weight");
  require(embedding != nullptr && embedding->shape.size() == 2,
          "{}: the tensor token_embd.weight is missing or not a matrix", where);
  c.vocab_size = embedding->shape[0];
  validate(c, where);
  const int64_t rope_dims = file.integer("llama.rope.dimension_count", c.head_dim());
  require(rope_dims == c.head_dim(), "{}: RoPE over {} of {} dimensions a head is not supported here", where, rope_dims,
          c.head_dim());
  for (const char* key : {"llama.attention.key_length", "llama.attention.value_length"}) {
    require(file.integer(key, c.head_dim()) == c.head_dim(),
            "{}: {} differs from embedding_length / head_count, which is not supported here", where, key);
  }
  if (file.find("llama.rope.scaling.type") != nullptr) {
    require(file.string("llama.rope.scaling.type") == "none", "{}: RoPE scaling of type {} is not supported here",
            where, printable(file.string("llama.rope.scaling.type")));
  }
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {  // linear where no type is named
    require(file.real(key, 1.0F) == 1.0F, "{}: {} = {} is not supported here", where, key, file.real(key, 1.0F));
  }
  return c;
}

GgufMetadata config_to_gguf(const ModelConfig& c, const std::string& model_name) {
  const auto u32 = [](int64_t value) { return GgufValue(static_cast<uint32_t>(value)); };
  return {
      {"general.architecture", std::string("llama")},
      {"general.name", model_name},
      {"general.file_type", u32(0)},  // all F32
      {"llama.block_count", u32(c.n_layers)},
      {"llama.context_length", u32(c.context_length)},
      {"llama.embedding_length", u32(c.dim)},
      {"llama.feed_forward_length", u32(c.hidden_dim)},
      {"llama.attention.head_count", u32(c.n_heads)},
      {"llama.attention.head_count_kv", u32(c.n_kv_heads)},
      {"llama.attention.layer_norm_rms_epsilon", c.norm_eps},
      {"llama.rope.dimension_count", u32(c.head_dim())},
      {"llama.rope.freq_base", c.rope_theta},
      {"llama.vocab_size", u32(c.vocab_size)},
  };
}

std::vector<TensorView> manifest_tensors(const GgufFile& file, const ModelConfig& config) {
  const std::string where = file.path().string();
  std::vector<TensorView> views;
  for (const TensorSpec& spec : tensor_manifest(config)) {
    const TensorView* view = file.find_tensor(spec.gguf_name);
    require(view != nullptr, "{}: the tensor {} of shape {} is missing", where, spec.gguf_name,
            shape_string(spec.shape));
    require(view->shape == spec.shape, "{}: tensor {} has shape {}, but {} is expected", where, spec.gguf_name,
            shape_string(view->shape), shape_string(spec.shape));
    views.push_back(*view);
  }
  if (views.size() != file.tensors().size()) {
    for (const TensorView& tensor : file.tensors()) {
      bool known = false;
      for (const TensorView& view : views) known = known || view.name == tensor.name;
      require(known, "{}: the tensor {} is no part of a llama model that is run here", where, printable(tensor.name));
    }
  }
  return views;
}

namespace {

// The double that is printed as the float is, 1e-05 and not 9.999999747378752e-06; it rounds to the same float.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace

std::string config_to_hf_json(const ModelConfig& c, int64_t end_of_text) {
  nlohmann::ordered_json json = {
      {"architectures", {"LlamaForCausalLM"}},
      {"model_type", "llama"},
      {"vocab_size", c.vocab_size},
      {"hidden_size", c.dim},
      {"num_hidden_layers", c.n_layers},
      {"num_attention_heads", c.n_heads},
      {"num_key_value_heads", c.n_kv_heads},
      {"head_dim", c.head_dim()},
      {"intermediate_size", c.hidden_dim},
      {"max_position_embeddings", c.context_length},
      {"rope_theta", shortest(c.rope_theta)},
      {"rms_norm_eps", shortest(c.norm_eps)},
      {"tie_word_embeddings", c.tie_embeddings},
      {"hidden_act", "silu"},
      {"attention_bias", false},
      {"mlp_bias", false},
      {"bos_token_id", end_of_text},
      {"eos_token_id", end_of_text},
      {"dtype", "float32"},
      {"torch_dtype", "float32"},
  };
  return json.dump(2) + "\n";
}

ModelConfig config_from_hf_json(const fs::path& path) {
  const std::string where = path.string();
  const nlohmann::json json = parse_json(read_text_file(path, size_t{16} << 20U), where);
  const auto type = json_get<std::string>(json, "model_type", where);
  require(type == "llama", "{}: model_type is {}, but only llama is read here", where, printable(type));
  const auto refuse = [&](const char* key, const auto& allowed) {
    require(!json.contains(key) || json[key].is_null() || json[key] == allowed, "{}: {} = {} is not supported here",
            where, key, printable(json.value(key, nlohmann::json()).dump()));
  };
  refuse("hidden_act", "silu");
  refuse("attention_bias", false);
  refuse("mlp_bias", false);
  refuse("rope_scaling", nullptr);
  ModelConfig c;
  c.vocab_size = json_get<int64_t>(json, "vocab_size", where);
  c.dim = json_get<int64_t>(json, "hidden_size", where);
  c.n_layers = json_get<int64_t>(json, "num_hidden_layers", where);
  c.n_heads = json_get<int64_t>(json, "num_attention_heads", where);
  c.n_kv_heads =
      json.contains("num_key_value_heads") ? json_get<int64_t>(json, "num_key_value_heads", where) : c.n_heads;
  c.hidden_dim = json_get<int64_t>(json, "intermediate_size", where);
  c.context_length = json_get<int64_t>(json, "max_position_embeddings", where);
  c.norm_eps = json_get<float>(json, "rms_norm_eps", where);
  c.rope_theta = json.contains("rope_theta") ? json_get<float>(json, "rope_theta", where) : 10000.0F;
  if (json.contains("rope_parameters") && json["rope_parameters"].is_object()) {  // transformers 5 writes it there
    const auto& rope = json["rope_parameters"];
    require(!rope.contains("rope_type") || rope["rope_type"] == "default", "{}: rope_type {} is not supported here",
            where, printable(rope.value("rope_type", nlohmann::json()).dump()));
    if (rope.contains("rope_theta")) c.rope_theta = json_get<float>(rope, "rope_theta", where);
  }
  c.tie_embeddings = json.contains("tie_word_embeddings") && json_get<bool>(json, "tie_word_embeddings", where);
  validate(c, where);
  refuse("head_dim", c.head_dim());
  return c;
}

Weights read_hf_directory(const fs::path& directory) {
  Weights weights{.config = config_from_hf_json(directory / "config.json"), .tensors = {}};
  const ModelConfig& c = weights.config;
  const SafetensorsFile file(directory / "model.safetensors");
  const std::string where = file.path().string();
  for (const TensorSpec& spec : tensor_manifest(c)) {
    const TensorView* view = file.find_tensor(spec.hf_name);
    require(view != nullptr, "{}: the tensor {} of shape {} is missing", where, spec.hf_name, shape_string(spec.shape));
    require(view->shape == spec.shape, "{}: tensor {} has shape {}, but config.json means {}", where, spec.hf_name,
            shape_string(view->shape), shape_string(spec.shape));
    const auto values = view->floats();
    std::vector<float> tensor(values.begin(), values.end());
    if (spec.rope_permuted()) {
      split_halves_to_adjacent(values, tensor, spec.shape[0] / c.head_dim(), c.head_dim(), c.dim);
    }
    weights.tensors.push_back(std::move(tensor));
  }
  return weights;
}

void write_hf_directory(const fs::path& directory, const Weights& weights, int64_t end_of_text) {
  const ModelConfig& c = weights.config;
  const auto manifest = tensor_manifest(c);
  std::vector<std::vector<float>> permuted(manifest.size());
  std::vector<TensorView> views;
  for (size_t i = 0; i < manifest.size(); ++i) {
    const TensorSpec& spec = manifest[i];
    std::span<const float> values = weights.tensors.at(i);
    if (spec.rope_permuted()) {
      permuted[i].resize(values.size());
      adjacent_to_split_halves(values, permuted[i], spec.shape[0] / c.head_dim(), c.head_dim(), c.dim);
      values = permuted[i];
    }
    views.push_back({.name = spec.hf_name, .type = DType::F32, .shape = spec.shape, .bytes = std::as_bytes(values)});
  }
  write_safetensors(directory / "model.safetensors", views);
  write_file_atomically(directory / "config.json", config_to_hf_json(c, end_of_text));
}

void write_model_gguf(const fs::path& path, const Weights& weights, const std::string& model_name,
                      const GgufMetadata& tokenizer) {
  GgufMetadata metadata = config_to_gguf(weights.config, model_name);
  metadata.insert(metadata.end(), tokenizer.begin(), tokenizer.end());
  const auto manifest = tensor_manifest(weights.config);
  std::vector<TensorView> views;
  for (size_t i = 0; i < manifest.size(); ++i) {
    views.push_back({.name = manifest[i].gguf_name,
                     .type = DType::F32,
                     .shape = manifest[i].shape,
                     .bytes = std::as_bytes(std::span(weights.tensors.at(i)))});
  }
  write_file_atomically(path, [&](OutputFile& out) { write_gguf(out, metadata, views); });
}

}  // namespace folio::core
