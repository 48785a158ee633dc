#include "core/formats/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/file_io.h"
#include "core/quants.h"
#include "core/rope_scaling.h"

namespace folio::core {
namespace {

// llama.cpp's number (enum llama_ftype) for the type of most of the file's tensors.
uint32_t main_type(const std::vector<TensorView>& tensors) {
  // The embedding, which comes first, often has a more precise type than the layers' matrices.
  const auto matrix =
      std::find_if(tensors.begin() + 1, tensors.end(), [](const auto& t) { return t.shape.size() > 1; });
  const DType type = matrix == tensors.end() ? tensors.front().type : matrix->type;
  switch (type) {
    case DType::F16:
      return 1;
    case DType::Q4_0:
      return 2;
    case DType::Q4_1:
      return 3;
    case DType::Q8_0:
      return 7;
    case DType::Q5_0:
      return 8;
    case DType::Q5_1:
      return 9;
    case DType::Q4_K:
      return 15;  // "Q4_K - Medium", as the next two
    case DType::Q5_K:
      return 17;
    case DType::Q6_K:
      return 18;
    case DType::BF16:
      return 32;
    default:
      return 0;
  }
}

constexpr const char* kRopeFactors = "rope_freqs.weight";
// Llama 3's parameters. GGUF has no standard keys for them; other programs read the resulting factors.
constexpr const char* kScalingFactor = "rope.scaling.llama3.factor";
constexpr const char* kScalingLow = "rope.scaling.llama3.low_freq_factor";
constexpr const char* kScalingHigh = "rope.scaling.llama3.high_freq_factor";
constexpr const char* kScalingContext = "rope.scaling.llama3.original_context_length";

// The keys of an architecture: "llama.block_count".
class Keys {
 public:
  explicit Keys(std::string_view architecture) : architecture_(architecture) {}
  std::string operator()(const char* name) const { return fmt::format("{}.{}", architecture_, name); }

 private:
  std::string_view architecture_;
};

// The file's factors have to match Llama 3's formula, with the parameters in our keys or those of Llama 3.1 to 3.3.
void read_rope_factors(const GgufFile& file, const Keys& key, const TensorView& tensor, ModelConfig& c) {
  const std::string where = file.path().string();
  require(tensor.type == DType::F32 && tensor.shape == std::vector<int64_t>{c.head_dim / 2},
          "{}: tensor {} is {} of shape {}, but F32 of shape [{}] is expected", where, kRopeFactors,
          info(tensor.type).name, shape_string(tensor.shape), c.head_dim / 2);
  const std::vector<float> factors = to_floats(tensor);
  RopeScaling& s = c.rope_scaling;
  if (file.find(key(kScalingFactor)) == nullptr) s.factor = *std::max_element(factors.begin(), factors.end());
  validate(c, fmt::format("{}: {}", where, kRopeFactors));
  const std::vector<double> expected = rope_factors(c);
  for (size_t i = 0; i < factors.size(); ++i) {
    require(
        std::abs(factors[i] - expected[i]) <= 1e-5 * expected[i],
        "{}: {} is not Llama 3's: number {} is {}, but {:.6g} by a factor of {}, {} to {} turns and a context of {}",
        where, kRopeFactors, i, factors[i], expected[i], s.factor, s.low_freq_factor, s.high_freq_factor,
        s.original_context);
  }
}

void read_rope_scaling(const GgufFile& file, const Keys& key, ModelConfig& c) {
  const std::string where = file.path().string();
  if (file.find(key("rope.scaling.type")) != nullptr) {
    require(file.string(key("rope.scaling.type")) == "none", "{}: RoPE scaling of type {} is not supported here", where,
            printable(file.string(key("rope.scaling.type"))));
  }
  for (const char* name : {"rope.scaling.factor", "rope.scale_linear"}) {  // linear scaling, if no type is named
    const float factor = file.real(key(name), 1.0F);
    require(factor == 1.0F, "{}: {} = {} is not supported here", where, key(name), factor);
  }
  for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
    require(file.find_tensor(name) == nullptr, "{}: RoPE scaling of type longrope ({}) is not supported here", where,
            name);
  }
  RopeScaling& s = c.rope_scaling;
  s.factor = file.real(key(kScalingFactor), s.factor);
  s.low_freq_factor = file.real(key(kScalingLow), s.low_freq_factor);
  s.high_freq_factor = file.real(key(kScalingHigh), s.high_freq_factor);
  s.original_context = file.integer(key(kScalingContext), s.original_context);
  if (const TensorView* factors = file.find_tensor(kRopeFactors)) read_rope_factors(file, key, *factors, c);
  validate(c, where);
  if (!s.active()) s = {};
}

// A sliding window that llama.cpp passes over for these architectures, and mixtures of experts.
void refuse_missing_parts(const GgufFile& file, const Keys& key, const ModelConfig& c) {
  const std::string where = file.path().string();
  const int64_t window = file.integer(key("attention.sliding_window"), 0);
  require(window == 0 || window >= c.context_length, "{}: {} = {} is not supported here", where,
          key("attention.sliding_window"), window);
  const int64_t experts = file.integer(key("expert_count"), 0);
  require(experts == 0, "{}: {} = {}: experts are not supported here", where, key("expert_count"), experts);
}

}  // namespace

ModelConfig config_from_gguf(const GgufFile& file) {
  const std::string where = file.path().string();
  const GgufValue* type = file.find("general.type");
  require(type == nullptr || *type != GgufValue(std::string("adapter")),
          "{} is an adapter, not a model: name its base, and the adapter by --lora (export: --merge)", where);
  const FamilyInfo& family = family_of_gguf(file.string("general.architecture"), where + ": the architecture");
  const Keys key(family.gguf);
  ModelConfig c;
  c.family = family.family;
  c.dim = file.integer(key("embedding_length"));
  c.n_layers = file.integer(key("block_count"));
  c.n_heads = file.integer(key("attention.head_count"));
  c.n_kv_heads = file.integer(key("attention.head_count_kv"), c.n_heads);
  c.hidden_dim = file.integer(key("feed_forward_length"));
  c.context_length = file.integer(key("context_length"));
  c.rope_theta = file.real(key("rope.freq_base"), 10000.0F);
  c.norm_eps = file.real(key("attention.layer_norm_rms_epsilon"), 1e-5F);
  c.tie_embeddings = file.find_tensor("output.weight") == nullptr;
  const TensorView* embedding = file.find_tensor("token_embd.weight");
  require(embedding != nullptr && embedding->shape.size() == 2,
          "{}: the tensor token_embd.weight is missing or not a matrix", where);
  c.vocab_size = embedding->shape[0];
  const int64_t vocab_size = file.integer(key("vocab_size"), c.vocab_size);
  require(vocab_size == c.vocab_size, "{}: {} is {}, but token_embd.weight has {} rows", where, key("vocab_size"),
          vocab_size, c.vocab_size);
  const bool own_width = file.find(key("attention.key_length")) != nullptr;
  c.head_dim = own_width ? file.integer(key("attention.key_length")) : even_head_dim(c.dim, c.n_heads, where);
  validate(c, where);
  const int64_t rope_dims = file.integer(key("rope.dimension_count"), c.head_dim);
  require(rope_dims == c.head_dim, "{}: RoPE over {} of {} dimensions a head is not supported here", where, rope_dims,
          c.head_dim);
  const int64_t value_length = file.integer(key("attention.value_length"), c.head_dim);
  require(value_length == c.head_dim, "{}: {} is {}, but keys have {} numbers, which is not supported here", where,
          key("attention.value_length"), value_length, c.head_dim);
  refuse_missing_parts(file, key, c);
  read_rope_scaling(file, key, c);
  return c;
}

ModelConfig as_in_gguf(ModelConfig c) {
  c.family = family_of_gguf(info(c.family).gguf, "").family;
  if (c.sliding_window > 0) c.context_length = std::min(c.context_length, std::exchange(c.sliding_window, 0));
  return c;
}

std::string lost_in_gguf(const ModelConfig& c) {
  const int64_t context = as_in_gguf(c).context_length;
  if (context == c.context_length) return {};
  return fmt::format("a GGUF of architecture {} has no sliding window: its context is {} instead of {}",
                     info(c.family).gguf, context, c.context_length);
}

GgufMetadata config_to_gguf(const ModelConfig& config, const std::string& model_name) {
  const ModelConfig c = as_in_gguf(config);
  const FamilyInfo& family = info(c.family);
  const Keys key(family.gguf);
  const auto u32 = [](int64_t value) { return GgufValue(static_cast<uint32_t>(value)); };
  GgufMetadata metadata{
      {"general.architecture", std::string(family.gguf)},
      {"general.name", model_name},
      {key("block_count"), u32(c.n_layers)},
      {key("context_length"), u32(c.context_length)},
      {key("embedding_length"), u32(c.dim)},
      {key("feed_forward_length"), u32(c.hidden_dim)},
      {key("attention.head_count"), u32(c.n_heads)},
      {key("attention.head_count_kv"), u32(c.n_kv_heads)},
      {key("attention.layer_norm_rms_epsilon"), c.norm_eps},
      {key("rope.dimension_count"), u32(c.head_dim)},
      {key("rope.freq_base"), c.rope_theta},
      {key("vocab_size"), u32(c.vocab_size)},
  };
  if (c.query_dim() != c.dim) {
    metadata.emplace_back(key("attention.key_length"), u32(c.head_dim));
    metadata.emplace_back(key("attention.value_length"), u32(c.head_dim));
  }
  const RopeScaling& s = c.rope_scaling;
  if (s != RopeScaling{}) {
    metadata.emplace_back(key(kScalingFactor), s.factor);
    metadata.emplace_back(key(kScalingLow), s.low_freq_factor);
    metadata.emplace_back(key(kScalingHigh), s.high_freq_factor);
    metadata.emplace_back(key(kScalingContext), u32(s.original_context));
  }
  return metadata;
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
      bool known = tensor.name == kRopeFactors;  // config_from_gguf reads it
      for (const TensorView& view : views) known = known || view.name == tensor.name;
      if (!known) fail_extra_tensor(where, tensor.name, config.family);
    }
  }
  return views;
}

namespace {

// The same tensors, followed by the factors.
TensorStream with_rope_factors(const ModelConfig& config, TensorStream stream) {
  const std::vector<double> exact = rope_factors(config);
  const std::vector<float> factors(exact.begin(), exact.end());
  std::vector<TensorView> tensors = stream.tensors;
  tensors.push_back(
      {.name = kRopeFactors, .type = DType::F32, .shape = {static_cast<int64_t>(factors.size())}, .bytes = {}});
  return {tensors,
          [=](size_t i) { return i < stream.tensors.size() ? stream.bytes(i) : std::as_bytes(std::span(factors)); }};
}

}  // namespace

StoredModel read_gguf_model(const std::filesystem::path& path) {
  const auto file = std::make_shared<const GgufFile>(path);
  StoredModel model{.path = path.string(),
                    .format = ModelFormat::Gguf,
                    .config = config_from_gguf(*file),
                    .tensors = {},
                    .storage = {},
                    .gguf = {}};
  model.tensors = manifest_tensors(*file, model.config);
  for (const TensorView& tensor : model.tensors) require_weight_type(tensor, model.path);
  model.gguf = file;
  return model;
}

void write_gguf_model(const std::filesystem::path& path, const ModelConfig& config, TensorStream stream,
                      const std::string& model_name, const GgufMetadata& tokenizer, std::optional<uint32_t> file_type) {
  GgufMetadata metadata = config_to_gguf(config, model_name);
  metadata.emplace_back("general.file_type", file_type.value_or(main_type(stream.tensors)));
  const bool blocks = std::ranges::any_of(stream.tensors, [](const auto& t) { return quant_info(t.type) != nullptr; });
  if (blocks) metadata.emplace_back("general.quantization_version", uint32_t{2});
  metadata.insert(metadata.end(), tokenizer.begin(), tokenizer.end());
  const auto manifest = tensor_manifest(config);
  for (size_t i = 0; i < manifest.size(); ++i) stream.tensors.at(i).name = manifest[i].gguf_name;
  if (config.rope_scaling.active()) stream = with_rope_factors(config, std::move(stream));
  write_file_atomically(path, [&](OutputFile& out) { write_gguf(out, metadata, stream); });
}

void write_gguf_model(const std::filesystem::path& path, const Weights& weights, const std::string& model_name,
                      const GgufMetadata& tokenizer) {
  write_gguf_model(path, weights.config, weights.views(), model_name, tokenizer);
}

}  // namespace folio::core
