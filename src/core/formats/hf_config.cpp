#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/error.h"
#include "core/file_io.h"
#include "core/formats/family_files.h"
#include "core/formats/hf_model.h"
#include "core/json.h"
#include "core/rope_scaling.h"

namespace folio::core {
namespace {

constexpr const char* kAheadInHf = "num_nextn_predict_layers";

// Returns the double with the float's shortest decimal form: 1e-05, not 9.999999747378752e-06.
double shortest(float value) { return std::stod(fmt::format("{}", value)); }

// transformers requires integers for some keys. Returns `value` rounded to an integer if make() converts that to
// `result`, the value that Folio computes with. Otherwise returns `value` unchanged.
template <typename Make>
OrderedJson number(double value, float result, Make&& make) {
  const double whole = std::round(value);
  if (make(whole) == result) return static_cast<int64_t>(whole);
  return value;
}

float score_scale_of(double query_pre_attn_scalar) {
  return static_cast<float>(1.0 / std::sqrt(query_pre_attn_scalar));
}

float inverse(double value) { return static_cast<float>(1.0 / value); }

// Returns the smallest factor for which head_dim * factor, rounded down, is `rotated`.
double rotary_factor(int64_t rotated, int64_t head_dim) {
  const auto width = static_cast<double>(head_dim);
  double factor = static_cast<double>(rotated) / width;
  while (static_cast<int64_t>(width * factor) < rotated) factor = std::nextafter(factor, 2.0);
  return factor;
}

// Writes the sliding window as HfWindow specifies. max_window_layers is the number of layers without a window.
void write_window(const ModelConfig& c, OrderedJson& json) {
  const FamilyInfo& family = info(c.family);
  const HfFamily of_hf = hf_family(c.family);
  const bool active = c.sliding_window > 0;
  if (!family.sliding_window) return;
  // transformers requires a number for families with windows in some layers, even if layer_types lists none of them.
  const bool some = family.window_period > 1;
  const int64_t window = active ? c.sliding_window : some ? c.context_length : 0;
  json["sliding_window"] = window > 0 ? OrderedJson(window) : OrderedJson();
  if (of_hf.window_switch) json["use_sliding_window"] = active;
  if (c.window_period > 1 || some || of_hf.window == HfWindow::Even) {
    json["layer_types"] = OrderedJson::array();
    for (int64_t l = 0; l < c.n_layers; ++l) {
      json["layer_types"].push_back(c.has_window(l) ? "sliding_attention" : "full_attention");
    }
  } else if (of_hf.window == HfWindow::Layers) {
    json["max_window_layers"] = active ? 0 : c.n_layers;
  }
}

// Values of topk_method: without groups, with groups, and with a selection bias.
constexpr std::array kMethods{"greedy", "group_limited_greedy", "noaux_tc"};

const char* score_name(const FamilyInfo& family) {
  return family.mixture.score == RouterScore::Sigmoid ? "sigmoid" : "softmax";
}

void write_experts(const ModelConfig& c, OrderedJson& json) {
  const FamilyInfo& family = info(c.family);
  const HfFamily of_hf = hf_family(c.family);
  if (family.mixture.none) return;
  json[std::string(of_hf.n_experts)] = c.n_experts;
  json["num_experts_per_tok"] = c.experts_per_token;
  json[std::string(of_hf.expert_dim)] = c.expert_dim;
  if (of_hf.n_experts == "num_local_experts") {
    require(c.normalize_routes, "config.json of the family {} cannot store routing weights that are not normalized",
            c.family);
    return;
  }
  json["norm_topk_prob"] = c.normalize_routes;
  if (family.mixture.shared_gate) json["shared_expert_intermediate_size"] = c.shared_dim;
  if (family.mixture.deepseek) {
    require(c.shared_dim % c.expert_dim == 0,
            "config.json of the family {} cannot store shared_dim {}, which is not a multiple of expert_dim {}",
            c.family, c.shared_dim, c.expert_dim);
    json["n_shared_experts"] = c.shared_dim / c.expert_dim;
    json["first_k_dense_replace"] = c.dense_layers;
    if (of_hf.ffn_types) {
      for (int64_t l = 0; l < c.n_layers; ++l) {
        json["mlp_layer_types"].push_back(c.has_experts(l) ? "sparse" : "dense");
      }
    }
    if (family.latent) {
      json["scoring_func"] = score_name(family);
      json["topk_method"] = family.mixture.selection_bias ? kMethods[2] : kMethods[c.expert_groups > 1 ? 1 : 0];
    }
    json["n_group"] = c.expert_groups;
    json["topk_group"] = c.groups_per_token;
    json["routed_scaling_factor"] = shortest(c.route_scale);
  } else if (of_hf.expert_dim == "moe_intermediate_size") {
    json["decoder_sparse_step"] = 1;
    json["mlp_only_layers"] = OrderedJson::array();
    for (int64_t l = 0; l < c.dense_layers; ++l) json["mlp_only_layers"].push_back(l);
  }
}

OrderedJson cap(float value) { return value > 0.0F ? OrderedJson(shortest(value)) : OrderedJson(); }

// Writes the multipliers of Gemma and Granite. Gemma's query_pre_attn_scalar is score_scale() to the power of -2.
void write_scales(const ModelConfig& c, OrderedJson& json) {
  const Scales scales = info(c.family).scales;
  if (scales == Scales::Gemma) {
    const double scale = c.attention_scale;
    json["query_pre_attn_scalar"] = c.attention_scale == 0.0F
                                        ? OrderedJson(c.head_dim)
                                        : number(1.0 / (scale * scale), c.attention_scale, score_scale_of);
    json["attn_logit_softcapping"] = cap(c.attention_cap);
    json["final_logit_softcapping"] = cap(c.logit_cap);
    if (c.local_rope_theta > 0.0F) json["rope_local_base_freq"] = shortest(c.local_rope_theta);
  } else if (scales == Scales::Granite) {
    json["embedding_multiplier"] = shortest(c.embedding_scale);
    json["attention_multiplier"] = shortest(c.score_scale());
    json["residual_multiplier"] = shortest(c.residual_scale);
    json["logits_scaling"] = number(1.0 / static_cast<double>(c.logit_scale), c.logit_scale, inverse);
  }
}

void write_latent(const ModelConfig& c, OrderedJson& json) {
  if (!c.latent()) return;
  json["head_dim"] = c.qk_rope_head_dim;  // only the RoPE part, as transformers writes it
  json["kv_lora_rank"] = c.kv_lora_rank;
  json["q_lora_rank"] = c.q_lora_rank > 0 ? OrderedJson(c.q_lora_rank) : OrderedJson();
  json["qk_nope_head_dim"] = c.qk_nope_head_dim;
  json["qk_rope_head_dim"] = c.qk_rope_head_dim;
  json["v_head_dim"] = c.v_head_dim;
  json["rope_interleave"] = true;
}

nlohmann::ordered_json rope_scaling_json(const ModelConfig& c) {
  const RopeScaling& s = c.rope_scaling;
  nlohmann::ordered_json json = {{"rope_type", s.type}, {"factor", shortest(s.factor)}};
  if (s.type == RopeScalingType::Linear) return json;
  json["original_max_position_embeddings"] = s.original_context;
  if (s.type == RopeScalingType::Llama3) {
    json["low_freq_factor"] = shortest(s.low_freq_factor);
    json["high_freq_factor"] = shortest(s.high_freq_factor);
    return json;
  }
  json["attention_factor"] = shortest(s.magnitude);
  if (s.type == RopeScalingType::Yarn) {
    json["beta_slow"] = shortest(s.low_freq_factor);
    json["beta_fast"] = shortest(s.high_freq_factor);
    json["truncate"] = s.whole_pairs;
    if (const double mscale = latent_mscale(c); c.latent() && mscale != 0.0) {
      json["mscale_all_dim"] = mscale;
      if (s.magnitude == 1.0F) json["mscale"] = mscale;
    }
    return json;
  }
  for (const auto& [key, factors] :
       {std::pair{"short_factor", &s.short_factors}, std::pair{"long_factor", &s.long_factors}}) {
    json[key] = nlohmann::ordered_json::array();
    for (const float factor : *factors) json[key].push_back(shortest(factor));
  }
  return json;
}

}  // namespace

std::string config_to_hf_json(const ModelConfig& c, int64_t begin_of_text, int64_t end_of_text, DType type) {
  const char* dtype = type == DType::F16 ? "float16" : type == DType::BF16 ? "bfloat16" : "float32";
  const FamilyInfo& family = info(c.family);
  require_storable(c);
  OrderedJson json = {
      {"architectures", {hf_architecture(c.family)}},
      {"model_type", family.name},
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
      {family.gate == Gate::Gelu ? "hidden_activation" : "hidden_act",
       family.gate == Gate::Gelu ? "gelu_pytorch_tanh" : "silu"},
      {"bos_token_id", begin_of_text},
      {"eos_token_id", end_of_text},
      {"pad_token_id", nullptr},  // null, since some transformers classes have another default
      {"dtype", dtype},
      {"torch_dtype", dtype},
  };
  if (family.gate == Gate::Clamped) {
    json["swiglu_limit"] = shortest(kGateLimit);
    json["swiglu_alpha"] = shortest(kGateSlope);
  }
  if (hf_family(c.family).attention_bias) json["attention_bias"] = c.qkv_bias();
  if (family.rotary_factor != 1.0F) json["partial_rotary_factor"] = rotary_factor(c.rotated(), c.head_dim);
  write_latent(c, json);
  write_window(c, json);
  write_experts(c, json);
  if (family.mixture.deepseek || c.n_tokens_ahead > 0) json[kAheadInHf] = c.n_tokens_ahead;
  write_scales(c, json);
  if (const RopeScaling& s = c.rope_scaling; s.active()) {
    json["rope_scaling"] = rope_scaling_json(c);
    // Some transformers classes expect this key at the top level, not in rope_scaling.
    if (s.type == RopeScalingType::LongRope) json["original_max_position_embeddings"] = s.original_context;
  } else if (hf_family(c.family).rope_parameters) {  // without this key, transformers would scale RoPE
    json["rope_scaling"] = {{"rope_type", "default"}, {"rope_theta", shortest(c.rope_theta)}};
  }
  return json.dump(2) + "\n";
}

namespace {

bool has(const nlohmann::json& json, const char* key) { return json.contains(key) && !json[key].is_null(); }

// Throws Error unless the key is missing or null, or has the value `only`.
void require_only(const nlohmann::json& json, const std::string& where, const char* key, const nlohmann::json& only) {
  require(!has(json, key) || json[key] == only, "{}: {} = {} is not supported", where, key,
          [&] { return printable(json[key].dump()); });
}

template <typename T>
T get_or(const nlohmann::json& json, const char* key, const std::string& where, T otherwise) {
  return has(json, key) ? json_get<T>(json, key, where) : otherwise;
}

void read_rotated(const nlohmann::json& json, const std::string& where, float otherwise, ModelConfig& c) {
  const auto factor = get_or<double>(json, "partial_rotary_factor", where, otherwise);
  require(factor > 0.0 && factor <= 1.0, "{}: partial_rotary_factor is {}, but must be in (0, 1]", where, factor);
  const auto rotated = static_cast<int64_t>(static_cast<double>(c.head_dim) * factor);
  require(rotated == c.head_dim || (rotated > 0 && info(c.family).rotary_factor != 1.0F),
          "{}: partial_rotary_factor = {} is not supported", where, factor);
  c.rope_dims = rotated == c.head_dim ? 0 : rotated;
}

std::vector<float> read_factors(const nlohmann::json& rope, const char* key, const std::string& where) {
  std::vector<float> factors;
  for (const nlohmann::json& factor : json_list(rope, key, where)) {
    require(factor.is_number(), "{}: {} contains {}, expected numbers", where, key, printable(factor.dump()));
    factors.push_back(factor.get<float>());
  }
  return factors;
}

// Reads the parameters of a RoPE scaling `type`. Missing keys have transformers' defaults.
RopeScaling read_rope_scaling(const nlohmann::json& rope, RopeScalingType type, const std::string& where,
                              const ModelConfig& c) {
  RopeScaling s{.type = type};
  if (type != RopeScalingType::LongRope) s.factor = json_get<float>(rope, "factor", where);
  if (type == RopeScalingType::Linear) return s;
  if (type == RopeScalingType::Llama3) {
    s.low_freq_factor = json_get<float>(rope, "low_freq_factor", where);
    s.high_freq_factor = json_get<float>(rope, "high_freq_factor", where);
    s.original_context = json_get<int64_t>(rope, "original_max_position_embeddings", where);
    return s;
  }
  s.original_context = get_or<int64_t>(rope, "original_max_position_embeddings", where, c.context_length);
  if (type == RopeScalingType::Yarn) {
    s.low_freq_factor = get_or<float>(rope, "beta_slow", where, 1.0F);
    s.high_freq_factor = get_or<float>(rope, "beta_fast", where, 32.0F);
    s.whole_pairs = !rope.contains("truncate") || json_get<bool>(rope, "truncate", where);
    const auto mscale = get_or<float>(rope, "mscale", where, 0.0F);
    const auto all = get_or<float>(rope, "mscale_all_dim", where, 0.0F);
    const bool both = mscale != 0.0F && all != 0.0F;
    s.magnitude = both ? yarn_magnitude(s.factor, mscale) / yarn_magnitude(s.factor, all) : yarn_magnitude(s.factor);
  } else {
    const float longer =
        static_cast<float>(c.context_length) / static_cast<float>(std::max<int64_t>(1, s.original_context));
    s.factor = std::max(1.0F, get_or<float>(rope, "factor", where, longer));
    s.short_factors = read_factors(rope, "short_factor", where);
    s.long_factors = read_factors(rope, "long_factor", where);
    s.magnitude = longrope_magnitude(s.factor, s.original_context);
  }
  s.magnitude = get_or<float>(rope, "attention_factor", where, s.magnitude);
  return s;
}

// Reads rope_scaling (transformers 4) or rope_parameters (transformers 5), which also contains theta. If layers with a
// sliding window have another theta, rope_parameters has one object for each kind of layer.
void read_rope(const nlohmann::json& rope, const std::string& where, ModelConfig& c) {
  require(rope.is_object(), "{}: RoPE scaling {} is not supported", where, printable(rope.dump()));
  if (has(rope, "full_attention")) {
    read_rope(rope["full_attention"], where, c);
    if (!has(rope, "sliding_attention")) return;
    require(info(c.family).local_theta > 0.0F, "{}: RoPE parameters per layer type are not supported for {}", where,
            c.family);
    ModelConfig local = c;
    local.rope_theta = c.local_rope_theta;
    local.rope_scaling = {};
    read_rope(rope["sliding_attention"], where, local);
    require(!local.rope_scaling.active(), "{}: RoPE scaling of sliding-window layers is not supported", where);
    c.local_rope_theta = local.rope_theta;
    return;
  }
  if (rope.contains("rope_theta")) c.rope_theta = json_get<float>(rope, "rope_theta", where);
  if (has(rope, "partial_rotary_factor")) read_rotated(rope, where, 1.0F, c);
  const char* key = rope.contains("rope_type") || !rope.contains("type") ? "rope_type" : "type";
  const std::string type = rope.contains(key) ? json_get<std::string>(rope, key, where) : "default";
  // Dynamic scaling only affects positions after max_position_embeddings, and Folio uses no such positions.
  if (type == "default" || type == "dynamic") return;
  c.rope_scaling = read_rope_scaling(rope, rope_scaling_named(type, where), where, c);
  if (const auto mscale = get_or<double>(rope, "mscale_all_dim", where, 0.0); c.latent() && mscale != 0.0) {
    require(c.rope_scaling.type == RopeScalingType::Yarn,
            "{}: mscale_all_dim with RoPE scaling of type {} is not supported", where, type);
    if (c.rope_scaling.active()) c.attention_scale = latent_score_scale(c, mscale);
  }
  if (!c.rope_scaling.active()) c.rope_scaling = {};
}

// Returns for each layer whether it uses the sliding window.
std::vector<bool> layers_with_window(const nlohmann::json& json, const std::string& where, const ModelConfig& c) {
  const FamilyInfo& family = info(c.family);
  const HfWindow window = hf_family(c.family).window;
  const bool even = window == HfWindow::Even;
  const bool some = even || window == HfWindow::Layers;
  std::vector<bool> windows;
  if ((some || window == HfWindow::Listed || family.window_period > 1) && has(json, "layer_types")) {
    const nlohmann::json& types = json_list(json, "layer_types", where);
    require(types.size() == static_cast<size_t>(c.n_layers),
            "{}: layer_types has {} entries, but the model has {} layers", where, types.size(), c.n_layers);
    for (const nlohmann::json& type : types) {
      require(type == "sliding_attention" || type == "full_attention",
              "{}: layer_types contains {}, which is not supported", where, printable(type.dump()));
      windows.push_back(type == "sliding_attention");
    }
    return windows;
  }
  const int64_t period =
      family.window_period == 1 ? 1 : get_or(json, "sliding_window_pattern", where, family.window_period);
  require(period >= 1, "{}: sliding_window_pattern is {}, but must be positive", where, period);
  const int64_t limit = some ? get_or<int64_t>(json, "max_window_layers", where, 28) : 0;
  for (int64_t l = 0; l < c.n_layers; ++l) {
    windows.push_back(even ? l < limit && l % 2 == 0 : l >= limit && (period == 1 || (l + 1) % period != 0));
  }
  return windows;
}

// Reads the sliding window. Missing keys have transformers' defaults.
void read_window(const nlohmann::json& json, const std::string& where, ModelConfig& c) {
  const FamilyInfo& family = info(c.family);
  c.window_period = family.window_period;
  const HfFamily of_hf = hf_family(c.family);
  if (!family.sliding_window) return;
  if (of_hf.window_switch && !get_or(json, "use_sliding_window", where, false)) return;
  const bool listed = json.contains("sliding_window");
  if (listed ? json["sliding_window"].is_null() : of_hf.window == HfWindow::Optional) return;
  const std::vector<bool> windows = layers_with_window(json, where, c);
  const auto layers = std::ranges::count(windows, true);
  if (layers == 0) return;
  c.sliding_window = listed ? json_get<int64_t>(json, "sliding_window", where) : of_hf.window_size;
  require(c.sliding_window > 0, "{}: sliding_window is {}, but must be positive", where, c.sliding_window);
  const int64_t first_without = std::ranges::find(windows, false) - windows.begin();
  for (const int64_t period : {family.window_period, int64_t{1}, first_without + 1}) {
    c.window_period = period;
    int64_t l = 0;
    if (std::ranges::all_of(windows, [&](bool window) { return window == c.has_window(l++); })) return;
  }
  fail("{}: a sliding window in {} of {} layers, in this order, is not supported", where, layers, c.n_layers);
}

void read_latent(const nlohmann::json& json, const std::string& where, ModelConfig& c) {
  c.kv_lora_rank = json_get<int64_t>(json, "kv_lora_rank", where);
  c.q_lora_rank = get_or<int64_t>(json, "q_lora_rank", where, 0);
  c.qk_nope_head_dim = json_get<int32_t>(json, "qk_nope_head_dim", where);
  c.qk_rope_head_dim = json_get<int32_t>(json, "qk_rope_head_dim", where);
  c.v_head_dim = json_get<int64_t>(json, "v_head_dim", where);
  c.head_dim = c.qk_nope_head_dim + c.qk_rope_head_dim;
  const bool interleaved = !json.contains("rope_interleave") || json_get<bool>(json, "rope_interleave", where);
  require(interleaved, "{}: rope_interleave = false is not supported", where);
}

// Returns the number of leading layers without experts.
int64_t read_dense_layers(const nlohmann::json& json, const std::string& where, const ModelConfig& c) {
  if (!hf_family(c.family).ffn_types || !has(json, "mlp_layer_types")) {
    return json_get<int64_t>(json, "first_k_dense_replace", where);
  }
  const nlohmann::json& types = json_list(json, "mlp_layer_types", where);
  int64_t dense = 0;
  while (dense < static_cast<int64_t>(types.size()) && types[static_cast<size_t>(dense)] == "dense") ++dense;
  const auto sparse = std::ranges::count(types, "sparse");
  require(static_cast<int64_t>(types.size()) == c.n_layers && dense + sparse == c.n_layers,
          "{}: mlp_layer_types = {} is not supported; it must list {} layers, first those that are \"dense\", then "
          "those that are \"sparse\"",
          where, printable(types.dump()), c.n_layers);
  return dense;
}

void read_deepseek_experts(const nlohmann::json& json, const std::string& where, ModelConfig& c) {
  const FamilyInfo& family = info(c.family);
  const bool grouped = has(json, "topk_method") && json["topk_method"] == kMethods[1];
  const char* const method = family.mixture.selection_bias ? kMethods[2] : kMethods[grouped ? 1 : 0];
  // Published dots.llm1 directories name the method here, which has sigmoid scores.
  const bool by_method =
      family.mixture.selection_bias && has(json, "scoring_func") && json["scoring_func"] == kMethods[2];
  if (!by_method) require_only(json, where, "scoring_func", score_name(family));
  require_only(json, where, "topk_method", method);
  const auto shared = get_or<int64_t>(json, "n_shared_experts", where, 0);
  require(shared >= 0 && shared <= 1 << 10 && c.expert_dim >= 0 && c.expert_dim <= 1 << 20,
          "{}: {} shared experts of width {} are not supported", where, shared, c.expert_dim);
  c.shared_dim = shared * c.expert_dim;
  c.dense_layers = read_dense_layers(json, where, c);
  // The keys without a default have different ones in transformers' families.
  c.normalize_routes = json_get<bool>(json, "norm_topk_prob", where);
  c.route_scale = json_get<float>(json, "routed_scaling_factor", where);
  if (family.mixture.selection_bias || grouped) {
    const auto groups = [&](const char* key) {
      return family.latent ? json_get<int64_t>(json, key, where) : get_or<int64_t>(json, key, where, 1);
    };
    c.expert_groups = groups("n_group");
    c.groups_per_token = groups("topk_group");
  }
  require_only(json, where, "moe_layer_freq", 1);
}

void read_experts(const nlohmann::json& json, const std::string& where, const FamilyInfo& family, ModelConfig& c) {
  for (const char* key : {"num_experts", "num_local_experts", "n_routed_experts"}) {  // the key depends on the family
    if (has(json, key)) c.n_experts = json_get<int64_t>(json, key, where);
  }
  const HfFamily of_hf = hf_family(c.family);
  require(c.n_experts > 0, "{}: the family {} has experts, but {} is missing or 0", where, family.name,
          of_hf.n_experts);
  c.experts_per_token = json_get<int64_t>(json, "num_experts_per_tok", where);
  c.expert_dim = json_get<int64_t>(json, std::string(of_hf.expert_dim).c_str(), where);
  const bool mixtral = of_hf.n_experts == "num_local_experts";
  c.normalize_routes = mixtral || get_or(json, "norm_topk_prob", where, false);
  if (family.mixture.shared_gate) {
    c.shared_dim = json_get<int64_t>(json, "shared_expert_intermediate_size", where);
    require(c.shared_dim > 0, "{}: the family {} has shared experts, but shared_expert_intermediate_size is {}", where,
            family.name, c.shared_dim);
  }
  if (family.mixture.deepseek) return read_deepseek_experts(json, where, c);
  require_only(json, where, "decoder_sparse_step", 1);
  if (!has(json, "mlp_only_layers")) return;
  for (const nlohmann::json& layer : json_list(json, "mlp_only_layers", where)) {
    require(layer == c.dense_layers, "{}: mlp_only_layers = {} is not supported; it must list the first layers", where,
            printable(json["mlp_only_layers"].dump()));
    ++c.dense_layers;
  }
}

void require_factor(double value, const char* key, const std::string& where) {
  require(value >= 1e-6 && value <= 1e6, "{}: {} is {}, but must be in [1e-6, 1e6]", where, key, value);
}

void read_scales(const nlohmann::json& json, const std::string& where, const FamilyInfo& family, ModelConfig& c) {
  if (family.scales == Scales::Gemma) {
    c.embedding_scale = std::sqrt(static_cast<float>(c.dim));
    const auto scalar = json_get<double>(json, "query_pre_attn_scalar", where);
    require_factor(scalar, "query_pre_attn_scalar", where);
    const float scale = score_scale_of(scalar);
    c.attention_scale = scale == score_scale_of(static_cast<double>(c.head_dim)) ? 0.0F : scale;
    if (!family.caps) require_only(json, where, "attn_logit_softcapping", nullptr);  // transformers ignores it
    for (const char* key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
      if (family.caps) static_cast<void>(json_at(json, key, where));
      require(!has(json, key) || json[key] > 0, "{}: {} = {} is not supported; null means no cap", where, key,
              [&] { return printable(json[key].dump()); });
    }
    c.attention_cap = get_or(json, "attn_logit_softcapping", where, 0.0F);
    c.logit_cap = get_or(json, "final_logit_softcapping", where, 0.0F);
  } else if (family.scales == Scales::Granite) {
    c.embedding_scale = get_or(json, "embedding_multiplier", where, 1.0F);
    const auto scores = get_or(json, "attention_multiplier", where, 1.0F);
    require_factor(scores, "attention_multiplier", where);
    c.attention_scale = scores == 1.0F / std::sqrt(static_cast<float>(c.head_dim)) ? 0.0F : scores;
    c.residual_scale = get_or(json, "residual_multiplier", where, 1.0F);
    const auto scaling = get_or<double>(json, "logits_scaling", where, 1.0);
    require_factor(scaling, "logits_scaling", where);
    c.logit_scale = inverse(scaling);
  }
}

bool has_other_bias(const nlohmann::json& json, const FamilyInfo& family) {
  const bool published = hf_family(family.family).attention_bias && family.qkv_bias;
  return has(json, "attention_bias") && json["attention_bias"] != published;
}

void require_supported(const nlohmann::json& json, const std::string& where, const FamilyInfo& family) {
  const auto require_value = [&](const char* key, const auto& allowed) { require_only(json, where, key, allowed); };
  const char* const gate = family.gate == Gate::Gelu ? "gelu_pytorch_tanh" : "silu";
  require_value("hidden_act", gate);
  require_value("hidden_activation", gate);
  if (family.gate == Gate::Clamped) {
    require_value("swiglu_limit", shortest(kGateLimit));
    require_value("swiglu_alpha", shortest(kGateSlope));
  }
  require(
      !has_other_bias(json, family) || (family.qkv_bias_varies && json["attention_bias"].is_boolean()),
      "{}: attention_bias = {} is not supported for {}, whose published models have {}biases of queries, keys "
      "and values; use one of those, or run this model with transformers",
      where, [&] { return printable(json["attention_bias"].dump()); }, family.name, family.qkv_bias ? "" : "no ");
  require(!hf_family(family.family).attention_bias || has(json, "attention_bias"),
          "{}: the key \"attention_bias\" is missing", where);
  require_value("mlp_bias", false);
  require_value("use_qk_norm", family.qk_norm != QkNorm::None);
  require_value("use_bidirectional_attention", false);
  require_value("is_causal", true);
  if (family.mixture.none) {
    for (const char* experts : {"num_experts", "num_local_experts", "n_routed_experts"}) require_value(experts, 0);
  }
  require_value("clip_qkv", nullptr);
}

}  // namespace

ModelConfig config_from_hf_json(const std::filesystem::path& path) {
  const std::string where = path.string();
  const nlohmann::json json = parse_json(read_text_file(path, size_t{16} << 20U), where);
  const FamilyInfo& family = family_named(json_get<std::string>(json, "model_type", where), where + ": model_type");
  const HfFamily of_hf = hf_family(family.family);
  require_supported(json, where, family);
  ModelConfig c;
  c.family = family.family;
  c.vocab_size = json_get<int64_t>(json, "vocab_size", where);
  c.dim = json_get<int64_t>(json, "hidden_size", where);
  c.n_layers = json_get<int64_t>(json, "num_hidden_layers", where);
  c.n_tokens_ahead = get_or<int64_t>(json, kAheadInHf, where, 0);
  require(c.n_tokens_ahead >= 0 && c.n_tokens_ahead <= 1, "{}: {} = {} is not supported, expected 0 or 1", where,
          kAheadInHf, c.n_tokens_ahead);
  c.n_heads = json_get<int64_t>(json, "num_attention_heads", where);
  c.n_kv_heads = get_or(json, "num_key_value_heads", where, c.n_heads);
  c.hidden_dim = json_get<int64_t>(json, "intermediate_size", where);
  c.context_length = json_get<int64_t>(json, "max_position_embeddings", where);
  c.norm_eps = json_get<float>(json, "rms_norm_eps", where);
  c.other_qkv_bias = has_other_bias(json, family);
  c.tie_embeddings =
      json.contains("tie_word_embeddings") ? json_get<bool>(json, "tie_word_embeddings", where) : of_hf.ties;
  if (family.latent) {
    read_latent(json, where, c);
  } else if (has(json, "head_dim")) {
    c.head_dim = json_get<int64_t>(json, "head_dim", where);
  } else {
    c.head_dim = of_hf.head_dim > 0 ? of_hf.head_dim : even_head_dim(c.dim, c.n_heads, where);
  }
  if (!family.mixture.none) read_experts(json, where, family, c);
  validate(c, where);
  c.rope_theta = json.contains("rope_theta") ? json_get<float>(json, "rope_theta", where) : of_hf.rope_theta;
  c.local_rope_theta =
      family.local_theta > 0.0F ? get_or(json, "rope_local_base_freq", where, family.local_theta) : 0.0F;
  read_rotated(json, where, family.rotary_factor, c);
  std::optional<ModelConfig> scaled;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {  // as in transformers, the second replaces the first
    if (!has(json, key) || (scaled && json[key].empty())) continue;
    nlohmann::json rope = json[key];
    const char* original = "original_max_position_embeddings";  // the top level of config.json has precedence
    if (rope.is_object() && has(json, original)) rope[original] = json[original];
    ModelConfig own = c;
    if (scaled) own.local_rope_theta = scaled->local_rope_theta;
    read_rope(rope, where, own);
    require(
        !scaled || own.rope_theta == scaled->rope_theta,
        "{}: rope_theta is {} with rope_parameters, but {} with rope_scaling; set it in both, or remove one of them",
        where, scaled ? scaled->rope_theta : 0.0F, own.rope_theta);
    scaled = own;
  }
  require(!of_hf.rope_parameters || scaled, "{}: the key \"rope_parameters\" is missing", where);
  if (scaled) c = *scaled;
  require(family.local_theta == 0.0F || c.local_rope_theta >= 1.0F,
          "{}: the RoPE base of sliding-window layers is {}, but must be at least 1", where, c.local_rope_theta);
  read_scales(json, where, family, c);
  read_window(json, where, c);
  validate(c, where);
  return c;
}

}  // namespace folio::core
