// The shape of a model: its family, and every number that decides which tensors exist and how the forward pass runs.
// `visit_fields` is the only list of these fields; printing, parsing and comparing all go through it.
#pragma once

#include <cstdint>
#include <string>

#include "core/families.h"

namespace folio::core {

/// Llama 3's scaling of RoPE's low frequencies ("rope_type": "llama3"): see core/rope_scaling.h.
struct RopeScaling {
  float factor = 1.0F;            ///< 1: no scaling
  float low_freq_factor = 1.0F;   ///< pairs with fewer turns in the original context are scaled by the factor
  float high_freq_factor = 4.0F;  ///< pairs with more turns are not scaled
  int64_t original_context = 8192;

  [[nodiscard]] bool active() const { return factor != 1.0F; }
  bool operator==(const RopeScaling&) const = default;
};

/// What is said of a field of a configuration, once: `train`'s flags, config.toml and trainer.json follow from it.
struct ConfigField {
  static constexpr bool kLater = true;

  const char* flag;  ///< and the key in config.toml; empty: it has none
  const char* help;
  double low, high;    ///< of a number; no limits where both are 0
  bool later = false;  ///< added after the first version: where a trainer.json lacks it, it has its default
};

struct ModelConfig {
  Family family = Family::Llama;
  int64_t vocab_size = 0;  ///< tokens, including `<|endoftext|>`
  int64_t dim = 128;       ///< width of the residual stream
  int64_t n_layers = 4;
  int64_t n_heads = 4;     ///< query heads
  int64_t n_kv_heads = 4;  ///< key/value heads: n_heads (MHA), 1 (MQA), or a divisor of n_heads (GQA)
  /// Numbers of a head; all heads may be wider than dim together. Who changes dim or n_heads later sets it, too.
  int64_t head_dim = n_heads > 0 ? dim / n_heads : 0;
  int64_t hidden_dim = 352;      ///< inner width of SwiGLU
  int64_t context_length = 256;  ///< the maximum number of positions of a sequence
  int64_t sliding_window = 0;    ///< a position attends to so many, up to itself; 0: to all
  float rope_theta = 10000.0F;
  float norm_eps = 1e-5F;
  RopeScaling rope_scaling{};
  bool tie_embeddings = true;  ///< the output projection is the embedding matrix

  [[nodiscard]] int64_t query_dim() const { return n_heads * head_dim; }
  [[nodiscard]] int64_t kv_dim() const { return n_kv_heads * head_dim; }

  bool operator==(const ModelConfig&) const = default;

  /// Calls visit(name, field, ConfigField) for each field. `Self` is a ModelConfig or a const one.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    using F = ConfigField;
    visit("family", self.family, F{"family", "", 0, 0, F::kLater});
    visit("vocab_size", self.vocab_size, F{"", "", 1, 1 << 22});
    visit("dim", self.dim, F{"dim", "width of the residual stream", 1, 1 << 17});
    visit("n_layers", self.n_layers, F{"layers", "blocks", 1, 1 << 10});
    visit("n_heads", self.n_heads, F{"heads", "query heads", 1, 1 << 12});
    visit("n_kv_heads", self.n_kv_heads,
          F{"kv-heads", "key/value heads: fewer than --heads for GQA, 1 for MQA", 1, 1 << 12});
    visit("head_dim", self.head_dim,
          F{"head-dim", "width of a head (default: --dim / --heads)", 1, 1 << 17, F::kLater});
    visit("hidden_dim", self.hidden_dim, F{"hidden-dim", "inner width of SwiGLU", 1, 1 << 20});
    visit("context_length", self.context_length, F{"context", "maximum length of a sequence", 1, 1 << 24});
    visit("sliding_window", self.sliding_window,
          F{"sliding-window", "positions that one attends to; 0: all; not for llama", 0, 1 << 24, F::kLater});
    visit("rope_theta", self.rope_theta, F{"rope-theta", "base of RoPE's frequencies", 1, 1e9});
    visit("norm_eps", self.norm_eps, F{"norm-eps", "epsilon of the norms", 1e-12, 1});
    visit("rope_scaling_factor", self.rope_scaling.factor,
          F{"rope-scaling", "Llama 3's scaling of RoPE's low frequencies; 1: none", 1, 1e6, F::kLater});
    visit("rope_scaling_low", self.rope_scaling.low_freq_factor,
          F{"rope-scaling-low", "turns below which a pair is scaled by it", 1e-6, 1e6, F::kLater});
    visit("rope_scaling_high", self.rope_scaling.high_freq_factor,
          F{"rope-scaling-high", "turns above which a pair is not scaled", 1e-6, 1e6, F::kLater});
    visit("rope_scaling_context", self.rope_scaling.original_context,
          F{"rope-scaling-context", "context in which turns are counted", 1, 1 << 24, F::kLater});
    visit("tie_embeddings", self.tie_embeddings,
          F{"tie-embeddings", "whether the output is the embedding: true or false", 0, 0});
  }
};

/// Throws Error unless the configuration is possible. `where` names its source in the message.
void validate(const ModelConfig& config, const std::string& where);

/// dim / n_heads: the width of a head where nothing else is said. Throws Error unless it is a whole
/// number. 0 without heads, which validate() refuses.
[[nodiscard]] int64_t even_head_dim(int64_t dim, int64_t n_heads, const std::string& where);

/// The number of trainable parameters, by formula: V d (twice if untied) + L (2 d d_q + 2 d d_kv + 3 d h + 2 d) + d,
/// and in each layer d_q + 2 d_kv for biases and 2 d_head for norms of q and k, if the family has them.
[[nodiscard]] int64_t parameter_count(const ModelConfig& config);

/// The fields in which two configurations differ, as "n_heads 4 -> 8, dim 128 -> 256"; empty if none.
[[nodiscard]] std::string describe_difference(const ModelConfig& from, const ModelConfig& to);

}  // namespace folio::core
