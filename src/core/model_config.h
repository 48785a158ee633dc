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

  /// Calls visit(name, field) for each field. `Self` is a ModelConfig or a const one.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& visit) {
    visit("family", self.family);
    visit("vocab_size", self.vocab_size);
    visit("dim", self.dim);
    visit("n_layers", self.n_layers);
    visit("n_heads", self.n_heads);
    visit("n_kv_heads", self.n_kv_heads);
    visit("head_dim", self.head_dim);
    visit("hidden_dim", self.hidden_dim);
    visit("context_length", self.context_length);
    visit("sliding_window", self.sliding_window);
    visit("rope_theta", self.rope_theta);
    visit("norm_eps", self.norm_eps);
    visit("rope_scaling_factor", self.rope_scaling.factor);
    visit("rope_scaling_low", self.rope_scaling.low_freq_factor);
    visit("rope_scaling_high", self.rope_scaling.high_freq_factor);
    visit("rope_scaling_context", self.rope_scaling.original_context);
    visit("tie_embeddings", self.tie_embeddings);
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
