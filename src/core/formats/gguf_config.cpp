#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/formats/family_files.h"
#include "core/formats/gguf_model.h"
#include "core/rope_scaling.h"

namespace folio::core {
namespace {

// Folio's keys for Llama 3's RoPE parameters, for which GGUF has none. Other programs read only rope_freqs.weight.
constexpr const char* kScalingFactor = "rope.scaling.llama3.factor";
constexpr const char* kScalingLow = "rope.scaling.llama3.low_freq_factor";
constexpr const char* kScalingHigh = "rope.scaling.llama3.high_freq_factor";
constexpr const char* kScalingContext = "rope.scaling.llama3.original_context_length";
constexpr const char* kLogMultiplier = "rope.scaling.yarn_log_multiplier";  // 0.1 times mscale_all_dim
constexpr const char* kOriginalContext = "rope.scaling.original_context_length";

constexpr const char* kAheadInGguf = "nextn_predict_layers";  // number of MTP blocks, which block_count includes

// Builds the keys of an architecture, such as "llama.block_count".
struct Keys {
  std::string architecture;
  std::string operator()(const char* name) const { return fmt::format("{}.{}", architecture, name); }
};

// Throws Error unless the key is missing or has the value `only`.
template <typename T>
void require_only(const GgufFile& file, const std::string& key, T only) {
  T value = only;
  if constexpr (std::is_same_v<T, bool>) value = file.boolean(key, only);
  if constexpr (std::is_same_v<T, float>) value = file.real(key, only);
  if constexpr (std::is_same_v<T, int64_t>) value = file.integer(key, only);
  require(value == only, "{}: {} = {} is not supported, expected {}", file.path().string(), key, value, only);
}

// Returns the elements of tensor `name`, which are the divisors of RoPE's frequencies.
std::vector<float> rope_divisors(const GgufFile& file, const char* name, const ModelConfig& c) {
  const std::string where = file.path().string();
  const TensorView* tensor = file.find_tensor(name);
  require(tensor != nullptr, "{}: the tensor {} is missing", where, name);
  require(tensor->type == DType::F32 && tensor->shape == std::vector<int64_t>{c.rotated() / 2},
          "{}: tensor {} is {} of shape {}, expected F32 of shape [{}]", where, name, info(tensor->type).name,
          shape_string(tensor->shape), c.rotated() / 2);
  return to_floats(*tensor);
}

// Throws Error unless kRopeFactors has the frequency divisors of Llama 3's RoPE scaling. If the file lacks
// kScalingFactor, first sets the scaling factor to the largest element.
void read_rope_factors(const GgufFile& file, const Keys& key, ModelConfig& c) {
  const std::string where = file.path().string();
  const std::vector<float> factors = rope_divisors(file, kRopeFactors, c);
  RopeScaling& s = c.rope_scaling;
  if (file.find(key(kScalingFactor)) == nullptr) s.factor = *std::max_element(factors.begin(), factors.end());
  validate(c, fmt::format("{}: {}", where, kRopeFactors));
  const std::vector<double> expected = rope_factors(c);
  for (size_t i = 0; i < factors.size(); ++i) {
    require(std::abs(factors[i] - expected[i]) <= 1e-5 * expected[i],
            "{}: {} does not match Llama 3's formula: element {} is {}, expected {:.6g} for factor {}, low_freq_factor "
            "{}, high_freq_factor {} and context {}",
            where, kRopeFactors, i, factors[i], expected[i], s.factor, s.low_freq_factor, s.high_freq_factor,
            s.original_context);
  }
}

// Returns latent attention's score scale for `multiplier`, the value of kLogMultiplier. Computes with its shortest
// decimal form (0.1 for 0.1F).
float scale_of_multiplier(const ModelConfig& c, float multiplier) {
  return latent_score_scale(c, 10.0 * std::stod(fmt::format("{}", multiplier)));
}

// Searches `about` and the two nearest floats on each side for a value with fits(value). Returns `about` if none fits.
template <typename Fits>
float float_near(float about, Fits&& fits) {
  const float below = std::nextafter(about, -1e9F), above = std::nextafter(about, 1e9F);
  for (const float value : {about, below, above, std::nextafter(below, -1e9F), std::nextafter(above, 1e9F)}) {
    if (fits(value)) return value;
  }
  return about;
}

void read_rope_scaling(const GgufFile& file, const Keys& key, ModelConfig& c) {
  const std::string where = file.path().string();
  RopeScaling& s = c.rope_scaling;
  const bool long_factors = file.find_tensor(kLongFactors) != nullptr || file.find_tensor(kShortFactors) != nullptr;
  // In GGUF, scaling without a type is linear.
  const char* factor_key = file.find(key("rope.scale_linear")) != nullptr ? "rope.scale_linear" : "rope.scaling.factor";
  const float factor = file.real(key(factor_key), 1.0F);
  const float own_factor = file.real(key("rope.scaling.attn_factor"), 1.0F);
  const bool named = file.find(key("rope.scaling.type")) != nullptr;
  const std::string type = named ? file.string(key("rope.scaling.type")) : factor != 1.0F ? "linear" : "none";
  if (long_factors) {
    s.type = RopeScalingType::LongRope;
    s.original_context = file.integer(key(kOriginalContext), c.context_length);
    s.short_factors = rope_divisors(file, kShortFactors, c);
    s.long_factors = rope_divisors(file, kLongFactors, c);
    s.magnitude = own_factor;
    s.factor = std::max(
        1.0F, static_cast<float>(c.context_length) / static_cast<float>(std::max<int64_t>(1, s.original_context)));
  } else if (type != "none") {
    s.type = rope_scaling_named(type, where);
    require(s.type == RopeScalingType::Linear || s.type == RopeScalingType::Yarn,
            "{}: RoPE scaling of type {} without its tensors is not supported", where, type);
    require(file.find(key(factor_key)) != nullptr, "{}: RoPE scaling of type {} requires {}, which is missing", where,
            type, key(factor_key));
    s.factor = factor;
  }
  const bool scales = s.type == RopeScalingType::LongRope || (s.type == RopeScalingType::Yarn && !c.latent());
  if (!scales) require_only(file, key("rope.scaling.attn_factor"), 1.0F);
  if (s.type == RopeScalingType::Yarn) {
    s.whole_pairs = !gguf_family(c.family).yarn_between_pairs;
    s.original_context = file.integer(key(kOriginalContext), c.context_length);
    s.low_freq_factor = file.real(key("rope.scaling.yarn_beta_slow"), 1.0F);
    s.high_freq_factor = file.real(key("rope.scaling.yarn_beta_fast"), 32.0F);
    s.magnitude = yarn_magnitude(s.factor) * own_factor;
    if (c.latent() && s.factor > 1.0F) {  // as in llama.cpp, kLogMultiplier scales only the scores
      s.magnitude = 1.0F;
      const float multiplier = file.real(key(kLogMultiplier));
      c.attention_scale = scale_of_multiplier(c, multiplier);
      require(c.attention_scale > 0.0F, "{}: {} = {} is not supported", where, key(kLogMultiplier), multiplier);
    }
  }
  const bool divisors = file.find_tensor(kRopeFactors) != nullptr;
  require(!divisors || s.type == RopeScalingType::Llama3, "{}: tensor {} with RoPE scaling of type {} is not supported",
          where, kRopeFactors, s.type);
  if (s.type == RopeScalingType::Llama3) {
    s.factor = file.real(key(kScalingFactor), s.factor);
    s.low_freq_factor = file.real(key(kScalingLow), s.low_freq_factor);
    s.high_freq_factor = file.real(key(kScalingHigh), s.high_freq_factor);
    s.original_context = file.integer(key(kScalingContext), s.original_context);
    if (divisors) read_rope_factors(file, key, c);
  }
  validate(c, where);
  if (!s.active()) s = {};
}

void write_rope_scaling(const ModelConfig& c, const Keys& key, GgufMetadata& metadata) {
  const RopeScaling& s = c.rope_scaling;
  if (s == RopeScaling{}) return;
  require(!c.latent() || !s.active() || s.type == RopeScalingType::Yarn,
          "a GGUF of architecture {} cannot store RoPE scaling of type {}, only yarn; use --format hf",
          gguf_architecture(c.family), s.type);
  const auto context = static_cast<uint32_t>(s.original_context);
  if (s.type == RopeScalingType::Llama3) {
    metadata.emplace_back(key(kScalingFactor), s.factor);
    metadata.emplace_back(key(kScalingLow), s.low_freq_factor);
    metadata.emplace_back(key(kScalingHigh), s.high_freq_factor);
    metadata.emplace_back(key(kScalingContext), context);
    return;
  }
  if (s.type == RopeScalingType::LongRope) {
    metadata.emplace_back(key(kOriginalContext), context);
    metadata.emplace_back(key("rope.scaling.attn_factor"), s.magnitude);
    return;
  }
  metadata.emplace_back(key("rope.scaling.type"), fmt::format("{}", s.type));
  metadata.emplace_back(key("rope.scaling.factor"), s.factor);
  if (s.type == RopeScalingType::Linear) return;
  require(s.whole_pairs != gguf_family(c.family).yarn_between_pairs,
          "a GGUF of architecture {} cannot store YaRN with {} correction bounds; use --format hf",
          gguf_architecture(c.family), s.whole_pairs ? "truncated" : "fractional");
  metadata.emplace_back(key(kOriginalContext), context);
  metadata.emplace_back(key("rope.scaling.yarn_beta_slow"), s.low_freq_factor);
  metadata.emplace_back(key("rope.scaling.yarn_beta_fast"), s.high_freq_factor);
  if (c.latent()) {
    require(s.magnitude == 1.0F && c.attention_scale > 0.0F,
            "a GGUF of architecture {} cannot store YaRN with an attention_factor of {} and {} mscale_all_dim; use "
            "--format hf",
            gguf_architecture(c.family), s.magnitude, c.attention_scale > 0.0F ? "an" : "no");
    const auto gives_scale = [&](float value) { return scale_of_multiplier(c, value) == c.attention_scale; };
    const auto about = static_cast<float>(0.1 * latent_mscale(c));
    metadata.emplace_back(key(kLogMultiplier), float_near(about, gives_scale));
    return;
  }
  const float rest = s.magnitude / yarn_magnitude(s.factor);
  if (std::abs(rest - 1.0F) > 1e-6F) metadata.emplace_back(key("rope.scaling.attn_factor"), rest);
}

// Reads the sliding window. Missing keys have llama.cpp's defaults. Throws Error if the window is shorter than the
// context and llama.cpp would ignore it for this architecture.
void read_window(const GgufFile& file, const Keys& key, const FamilyInfo& family, ModelConfig& c) {
  const std::string where = file.path().string();
  const int64_t assumed = gguf_family(c.family).window_size;
  const bool shortens = assumed > 0 && assumed < c.context_length;
  int64_t window = file.integer(key("attention.sliding_window"), shortens ? assumed : 0);
  if (assumed != 0 && window == c.context_length) window = 0;  // as write_window() stores it
  c.window_period = family.window_period;
  if (!gguf_family(c.family).window) {
    require(window == 0 || window >= c.context_length, "{}: {} = {} is not supported", where,
            key("attention.sliding_window"), window);
    return;
  }
  c.sliding_window = window;
  if (window == 0) return;
  c.window_period = file.integer(key("attention.sliding_window_pattern"), family.window_period);
  if (family.local_theta == 0.0F) return require_only(file, key("rope.freq_base_swa"), c.rope_theta);
  c.local_rope_theta = file.real(key("rope.freq_base_swa"), family.local_theta);
  require(c.local_rope_theta >= 1.0F, "{}: {} is {}, but must be at least 1", where, key("rope.freq_base_swa"),
          c.local_rope_theta);
}

// Returns the score scale that llama.cpp uses for Gemma, whose GGUFs don't store it; 0 means 1 / sqrt(head_dim).
float gemma_score_scale(const ModelConfig& c) {
  if (c.n_layers != gguf_family(c.family).layers_27b || c.dim / c.n_heads == c.head_dim) return 0.0F;
  return 1.0F / std::sqrt(static_cast<float>(c.dim / c.n_heads));
}

// Reads the multipliers of Gemma and Granite. Missing soft caps have llama.cpp's defaults.
void read_scales(const GgufFile& file, const Keys& key, const FamilyInfo& family, ModelConfig& c) {
  if (family.scales == Scales::Gemma) {
    c.embedding_scale = std::sqrt(static_cast<float>(c.dim));
    c.attention_scale = gemma_score_scale(c);
    c.logit_cap = file.real(key("final_logit_softcapping"), family.caps ? 30.0F : 0.0F);
    if (!family.caps) return;
    c.attention_cap = file.real(key("attn_logit_softcapping"), 50.0F);
    require(c.attention_cap > 0.0F && c.logit_cap > 0.0F,
            "{}: the soft caps of scores and logits are {} and {}, but must be positive", file.path().string(),
            c.attention_cap, c.logit_cap);
  } else if (family.scales == Scales::Granite) {
    c.embedding_scale = file.real(key("embedding_scale"), 1.0F);
    c.attention_scale = file.real(key("attention.scale"), 0.0F);
    if (c.attention_scale == 1.0F / std::sqrt(static_cast<float>(c.head_dim))) c.attention_scale = 0.0F;
    c.residual_scale = file.real(key("residual_scale"), 1.0F);
    const float divisor = file.real(key("logit_scale"));
    require(divisor >= 1e-6F && divisor <= 1e6F, "{}: {} is {}, but must be in [1e-6, 1e6]", file.path().string(),
            key("logit_scale"), divisor);
    c.logit_scale = 1.0F / divisor;
  }
}

constexpr int64_t kSoftmax = 1, kSigmoid = 2;  // values of llama.cpp's expert_gating_func

// Reads the parameters of experts. Optional keys have the same defaults as in llama.cpp.
void read_experts(const GgufFile& file, const Keys& key, const FamilyInfo& family, ModelConfig& c) {
  const std::string where = file.path().string();
  const MixtureInfo& mixture = family.mixture;
  c.n_experts = file.integer(key("expert_count"), 0);
  if (c.n_experts == 0) return;
  c.experts_per_token = file.integer(key("expert_used_count"));
  require(c.experts_per_token > 0, "{}: {} is {}, but must be positive", where, key("expert_used_count"),
          c.experts_per_token);
  const bool own_width = mixture.own_width;
  c.expert_dim =
      own_width ? file.integer(key("expert_feed_forward_length"), c.hidden_dim / c.experts_per_token) : c.hidden_dim;
  c.normalize_routes = mixture.normalizes;
  require_only(file, key("expert_gating_func"), mixture.score == RouterScore::Softmax ? kSoftmax : kSigmoid);
  if (mixture.shared_gate) {
    c.shared_dim = file.integer(key("expert_shared_feed_forward_length"), c.hidden_dim);
    require(c.shared_dim > 0, "{}: the family {} has shared experts, but {} is {}", where, family.name,
            key("expert_shared_feed_forward_length"), c.shared_dim);
  }
  if (!mixture.deepseek) return;
  const int64_t shared = file.integer(key("expert_shared_count"), 0);
  require(shared >= 0 && shared <= 1 << 10 && c.expert_dim >= 0 && c.expert_dim <= 1 << 20,
          "{}: {} shared experts of width {} are not supported", where, shared, c.expert_dim);
  c.shared_dim = shared * c.expert_dim;
  c.dense_layers = file.integer(key("leading_dense_block_count"), 0);
  c.normalize_routes = file.boolean(key("expert_weights_norm"), false);
  const float scale = file.real(key("expert_weights_scale"), 1.0F);
  c.route_scale = scale == 0.0F ? 1.0F : scale;
  c.expert_groups = std::max<int64_t>(file.integer(key("expert_group_count"), 1), 1);
  c.groups_per_token = c.expert_groups > 1 ? file.integer(key("expert_group_used_count")) : 1;
  if (c.groups_per_token == c.expert_groups) c.expert_groups = c.groups_per_token = 1;  // the same as a single group
}

// Reads the dimensions of latent attention. Older files lack the keys that end with "_mla", and store the dimensions of
// a head in key_length and value_length.
void read_latent(const GgufFile& file, const Keys& key, ModelConfig& c) {
  const std::string where = file.path().string();
  const bool old = file.find(key("attention.key_length_mla")) == nullptr;
  c.n_kv_heads = c.n_heads;  // head_count_kv is 1 in current files, for the latent
  c.kv_lora_rank = file.integer(key("attention.kv_lora_rank"));
  c.q_lora_rank = file.integer(key("attention.q_lora_rank"), 0);
  c.head_dim = file.integer(key(old ? "attention.key_length" : "attention.key_length_mla"));
  c.v_head_dim = file.integer(key(old ? "attention.value_length" : "attention.value_length_mla"));
  c.qk_rope_head_dim = file.integer(key("rope.dimension_count"));
  constexpr int64_t kMost = 1 << 17;
  require(c.head_dim <= kMost && c.qk_rope_head_dim >= 0 && c.qk_rope_head_dim < c.head_dim,
          "{}: heads have {} elements, {} of them with RoPE; expected at most {}, and fewer of them with RoPE", where,
          c.head_dim, c.qk_rope_head_dim, kMost);
  require_only(file, key("attention.temperature_scale"), 0.0F);
  require_only(file, key("attention.temperature_length"), int64_t{0});
  c.qk_nope_head_dim = c.head_dim - c.qk_rope_head_dim;
  validate(c, where);
}

void read_heads(const GgufFile& file, const Keys& key, const FamilyInfo& family, ModelConfig& c) {
  const std::string where = file.path().string();
  const bool own_width = file.find(key("attention.key_length")) != nullptr;
  c.head_dim = own_width ? file.integer(key("attention.key_length")) : even_head_dim(c.dim, c.n_heads, where);
  validate(c, where);
  const int64_t rotated = file.integer(key("rope.dimension_count"), c.head_dim);
  const bool all = rotated == c.head_dim;
  require(all || (family.rotary_factor != 1.0F && rotated > 0),
          "{}: RoPE over {} of {} dimensions per head is not supported", where, rotated, c.head_dim);
  c.rope_dims = all ? 0 : rotated;
  // llama.cpp's M-RoPE rotates halves, so its converter reorders the rows of Wq and Wk of glm4.
  require(c.family != Family::Glm4 || file.find(key("rope.dimension_sections")) == nullptr,
          "{}: {} (M-RoPE, as in GLM-4.1V) is not supported; use a model without vision", where,
          key("rope.dimension_sections"));
  require_only(file, key("attention.value_length"), c.head_dim);
}

// Returns an integer that some GGUFs, such as those of Granite 4.0, list for each layer.
int64_t of_all_layers(const GgufFile& file, const std::string& key, std::optional<int64_t> fallback = {}) {
  const GgufValue* value = file.find(key);
  if (value == nullptr || !std::holds_alternative<GgufArray>(*value)) return file.integer(key, fallback);
  const auto& list = file.list<int32_t>(key);
  require(!list.empty() && std::ranges::count(list, list.front()) == std::ssize(list),
          "{}: {} differs between layers, which is not supported", file.path().string(), key);
  return list.front();
}

}  // namespace

ModelConfig config_from_gguf(const GgufFile& file) {
  const std::string where = file.path().string();
  const GgufValue* type = file.find("general.type");
  require(type == nullptr || *type != GgufValue(std::string("adapter")),
          "{} is an adapter, not a model: pass its base model, and the adapter with --lora (export: --merge)", where);
  const std::string architecture = file.string("general.architecture");
  const bool experts = file.integer(architecture + ".expert_count", 0) > 0;
  // Some GGUFs of GLM-4.7-Flash lack the gating function. Only models with sigmoid scores have a selection bias.
  const int64_t dense = file.integer(architecture + ".leading_dense_block_count", 0);
  const bool bias = file.find_tensor(fmt::format("blk.{}.exp_probs_b.bias", dense)) != nullptr;
  const bool sigmoid = file.integer(architecture + ".expert_gating_func", bias ? kSigmoid : kSoftmax) == kSigmoid;
  const FamilyInfo& family = family_of_gguf(
      architecture, experts, sigmoid ? RouterScore::Sigmoid : RouterScore::Softmax, where + ": the architecture");
  const Keys key{architecture};
  ModelConfig c;
  c.family = family.family;
  c.dim = file.integer(key("embedding_length"));
  const int64_t ahead = file.integer(key(kAheadInGguf), 0);
  require(ahead >= 0 && ahead <= 1 << 10, "{}: {} is {}", where, key(kAheadInGguf), ahead);
  const int64_t blocks = file.integer(key("block_count"));
  require(blocks >= 0, "{}: {} is {}, but must be positive", where, key("block_count"), blocks);
  c.n_layers = blocks - ahead;
  if (file.find_tensor(fmt::format("blk.{}.nextn.eh_proj.weight", c.n_layers)) != nullptr) {
    require(ahead <= 1, "{}: {} = {} is not supported, expected 0 or 1", where, key(kAheadInGguf), ahead);
    c.n_tokens_ahead = ahead;
  }
  c.n_heads = of_all_layers(file, key("attention.head_count"));
  c.n_kv_heads = of_all_layers(file, key("attention.head_count_kv"), c.n_heads);
  c.hidden_dim = of_all_layers(file, key("feed_forward_length"));
  read_experts(file, key, family, c);
  c.context_length = file.integer(key("context_length"));
  c.rope_theta = file.real(key("rope.freq_base"), 10000.0F);
  c.norm_eps = file.real(key("attention.layer_norm_rms_epsilon"), 1e-5F);
  c.tie_embeddings = file.find_tensor("output.weight") == nullptr;
  if (family.qkv_bias_varies) {
    const bool biases =
        file.find_tensor("blk.0.attn_q.bias") != nullptr || file.find_tensor("blk.0.attn_qkv.bias") != nullptr;
    c.other_qkv_bias = biases != family.qkv_bias;
  }
  require_only(file, key("attention.causal"), true);
  const TensorView* embedding = file.find_tensor("token_embd.weight");
  require(embedding != nullptr && embedding->shape.size() == 2,
          "{}: the tensor token_embd.weight is missing or not a matrix", where);
  c.vocab_size = embedding->shape[0];
  const int64_t vocab_size = file.integer(key("vocab_size"), c.vocab_size);
  require(vocab_size == c.vocab_size, "{}: {} is {}, but token_embd.weight has {} rows", where, key("vocab_size"),
          vocab_size, c.vocab_size);
  if (family.latent) {
    read_latent(file, key, c);
  } else {
    read_heads(file, key, family, c);
  }
  read_window(file, key, family, c);
  read_scales(file, key, family, c);
  validate(c, where);
  read_rope_scaling(file, key, c);
  return c;
}
ModelConfig as_in_gguf(ModelConfig c) {
  const RouterScore score = info(c.family).mixture.score;
  const FamilyInfo& family = family_of_gguf(gguf_architecture(c.family), c.n_experts > 0, score, "");
  c.family = family.family;
  if (c.n_experts > 0 && !family.mixture.own_width) c.hidden_dim = c.expert_dim;
  if (c.sliding_window > 0 && !gguf_family(c.family).window) {
    c.context_length = std::min(c.context_length, std::exchange(c.sliding_window, 0));
    c.window_period = family.window_period;
  }
  if (gguf_family(c.family).window_size != 0 && c.sliding_window == c.context_length) {  // as read_window() reads it
    c.sliding_window = 0;
    c.window_period = family.window_period;
  }
  return c;
}

std::string lost_in_gguf(const ModelConfig& c) {
  if (c.latent() && c.n_experts > 0 && c.shared_dim == 0) {
    return fmt::format("llama.cpp does not load a GGUF of architecture {} without shared experts (--shared-experts)",
                       gguf_architecture(c.family));
  }
  const bool square = c.n_kv_heads == c.n_heads && c.query_dim() == c.dim;
  if (info(c.family).qk_norm == QkNorm::All && c.n_experts > 0 && !square) {
    return fmt::format(
        "llama.cpp loads a GGUF of architecture {} only with as many key/value heads as heads (--kv-heads), of width "
        "dim / heads (--head-dim)",
        gguf_architecture(c.family));
  }
  const int64_t context = as_in_gguf(c).context_length;
  if (context == c.context_length) return {};
  return fmt::format("a GGUF of architecture {} cannot store a sliding window; its context length is {} instead of {}",
                     gguf_architecture(c.family), context, c.context_length);
}

namespace {

GgufValue u32(int64_t value) { return static_cast<uint32_t>(value); }

// Writes the dimensions of latent attention as llama.cpp's converter does: the cached latent counts as one key head.
// llama.cpp requires q_lora_rank even if it is 0, and the keys for experts even for dense models.
void write_latent(const Keys& key, const ModelConfig& c, GgufMetadata& metadata) {
  metadata.emplace_back(key("attention.kv_lora_rank"), u32(c.kv_lora_rank));
  metadata.emplace_back(key("attention.q_lora_rank"), u32(c.q_lora_rank));
  metadata.emplace_back(key("attention.key_length"), u32(c.latent_dim()));
  metadata.emplace_back(key("attention.value_length"), u32(c.kv_lora_rank));
  metadata.emplace_back(key("attention.key_length_mla"), u32(c.head_dim));
  metadata.emplace_back(key("attention.value_length_mla"), u32(c.v_head_dim));
  if (c.n_experts > 0) return;
  metadata.emplace_back(key("leading_dense_block_count"), u32(c.n_layers + c.n_tokens_ahead));
  metadata.emplace_back(key("expert_feed_forward_length"), u32(c.hidden_dim));
  metadata.emplace_back(key("expert_shared_count"), u32(0));
}

void write_experts(const FamilyInfo& family, const Keys& key, const ModelConfig& c, GgufMetadata& metadata) {
  const MixtureInfo& mixture = family.mixture;
  const auto reject_if = [&](bool lost, const char* what) {
    require(!lost, "a GGUF of architecture {} cannot store {}; use --format hf", gguf_architecture(c.family), what);
  };
  if (!mixture.deepseek) {
    reject_if(c.normalize_routes && !mixture.normalizes, "normalized routing weights");
    reject_if(!c.normalize_routes && mixture.normalizes, "routing weights that are not normalized");
    reject_if(c.dense_layers > 0, "layers without experts");
  }
  metadata.emplace_back(key("expert_count"), u32(c.n_experts));
  metadata.emplace_back(key("expert_used_count"), u32(c.experts_per_token));
  metadata.emplace_back(key("expert_feed_forward_length"), u32(c.expert_dim));
  if (mixture.shared_gate) metadata.emplace_back(key("expert_shared_feed_forward_length"), u32(c.shared_dim));
  if (!mixture.deepseek) return;
  reject_if(c.shared_dim % c.expert_dim != 0, "shared experts whose width is not a multiple of expert_dim");
  metadata.emplace_back(key("expert_shared_count"), u32(c.shared_dim / c.expert_dim));
  metadata.emplace_back(key("leading_dense_block_count"), u32(c.dense_layers));
  metadata.emplace_back(key("expert_weights_norm"), c.normalize_routes);
  metadata.emplace_back(key("expert_weights_scale"), c.route_scale);
  metadata.emplace_back(key("expert_gating_func"), u32(mixture.score == RouterScore::Softmax ? kSoftmax : kSigmoid));
  if (c.groups_per_token < c.expert_groups) {
    metadata.emplace_back(key("expert_group_count"), u32(c.expert_groups));
    metadata.emplace_back(key("expert_group_used_count"), u32(c.groups_per_token));
  }
}

void write_window(const FamilyInfo& family, const Keys& key, const ModelConfig& c, GgufMetadata& metadata) {
  const GgufFamily of_gguf = gguf_family(c.family);
  if (!of_gguf.window || (c.sliding_window == 0 && of_gguf.window_size == 0)) return;
  metadata.emplace_back(key("attention.sliding_window"),
                        u32(c.sliding_window > 0 ? c.sliding_window : c.context_length));
  if (c.sliding_window == 0) return;
  if (c.window_period != family.window_period) {
    metadata.emplace_back(key("attention.sliding_window_pattern"), u32(c.window_period));
  }
  if (c.local_rope_theta > 0.0F) metadata.emplace_back(key("rope.freq_base_swa"), c.local_rope_theta);
}

void write_scales(const FamilyInfo& family, const Keys& key, const ModelConfig& c, GgufMetadata& metadata) {
  if (family.scales == Scales::Gemma) {
    ModelConfig reread = c;
    reread.attention_scale = gemma_score_scale(c);
    require(std::abs(reread.score_scale() - c.score_scale()) <= 1e-6F * c.score_scale(),
            "a GGUF of architecture {} cannot store the attention scale {}, only {}; use --format hf",
            gguf_architecture(c.family), c.score_scale(), reread.score_scale());
    require((c.attention_cap > 0.0F) == family.caps && (c.logit_cap > 0.0F || !family.caps),
            "a GGUF of architecture {} cannot store attention scores {} a soft cap; use --format hf",
            gguf_architecture(c.family), family.caps ? "without" : "with");
    if (family.caps) metadata.emplace_back(key("attn_logit_softcapping"), c.attention_cap);
    if (c.logit_cap > 0.0F) metadata.emplace_back(key("final_logit_softcapping"), c.logit_cap);
  } else if (family.scales == Scales::Granite) {
    metadata.emplace_back(key("embedding_scale"), c.embedding_scale);
    metadata.emplace_back(key("attention.scale"), c.score_scale());
    metadata.emplace_back(key("residual_scale"), c.residual_scale);
    // GGUF stores a divisor of the logits. Chooses one whose float inverse is exactly logit_scale, if possible.
    const auto is_inverse = [&](float divisor) { return 1.0F / divisor == c.logit_scale; };
    metadata.emplace_back(key("logit_scale"), float_near(1.0F / c.logit_scale, is_inverse));
  }
}

}  // namespace

GgufMetadata config_to_gguf(const ModelConfig& config, const std::string& model_name) {
  const ModelConfig c = as_in_gguf(config);
  const FamilyInfo& family = info(c.family);
  require_storable(c);
  const std::string architecture = gguf_architecture(c.family);
  const Keys key{architecture};
  GgufMetadata metadata{
      {"general.architecture", architecture},
      {"general.name", model_name},
      {key("block_count"), u32(c.n_layers + c.n_tokens_ahead)},
      {key("context_length"), u32(c.context_length)},
      {key("embedding_length"), u32(c.dim)},
      {key("feed_forward_length"), u32(c.hidden_dim)},
      {key("attention.head_count"), u32(c.n_heads)},
      {key("attention.head_count_kv"), u32(c.latent() ? 1 : c.n_kv_heads)},
      {key("attention.layer_norm_rms_epsilon"), c.norm_eps},
      {key("rope.dimension_count"), u32(c.rotated())},
      {key("rope.freq_base"), c.rope_theta},
      {key("vocab_size"), u32(c.vocab_size)},
  };
  if (c.latent()) {
    write_latent(key, c, metadata);
  } else if (c.query_dim() != c.dim) {
    metadata.emplace_back(key("attention.key_length"), u32(c.head_dim));
    metadata.emplace_back(key("attention.value_length"), u32(c.head_dim));
  }
  if (c.n_experts > 0) write_experts(family, key, c, metadata);
  if (c.n_tokens_ahead > 0) metadata.emplace_back(key(kAheadInGguf), u32(c.n_tokens_ahead));
  write_window(family, key, c, metadata);
  write_scales(family, key, c, metadata);
  write_rope_scaling(c, key, metadata);
  return metadata;
}

}  // namespace folio::core
