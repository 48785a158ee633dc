// Functions that explain() combines: a prompt's activations, and analyses of them such as attribution and the logit
// lens. T is the number of tokens. Level 0 of the residual stream is the embedding, level l + 1 is after layer l.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/weights.h"
#include "infer/explain/explain.h"

namespace folio::infer::explain {

using Json = nlohmann::ordered_json;

/// A prompt's activations, by names such as "layers.0.query" (listed at Observer). Each has one row per token.
struct Trace {
  std::vector<int32_t> tokens{};
  std::map<std::string, std::vector<float>> values{};

  /// Returns an activation of a layer, or of the model if `layer` is -1. Throws std::out_of_range if there is none.
  [[nodiscard]] const std::vector<float>& at(const std::string& what, int64_t layer = -1) const;
  /// Returns the residual stream (tokens, dim): level 0 is the embedding, level l + 1 the output of layer l.
  [[nodiscard]] const std::vector<float>& level(int64_t level) const {
    return level == 0 ? at("embedding") : at("ffn_residual", level - 1);
  }
  /// Returns row `i` of an array with one row per token.
  [[nodiscard]] std::span<const float> row(std::span<const float> all, size_t i) const {
    return all.subspan(i * (all.size() / tokens.size()), all.size() / tokens.size());
  }
};

class Interventions;

/// Throws core::Error, with a message that begins with `what`, if `n_tokens` is 0, or more than kMostTokens,
/// Runner::max_rows() or the context length.
void require_fits(const Runner& runner, size_t n_tokens, std::string_view what);

/// Runs a prompt in one step, without using or filling the prefix cache. Returns the activations that explain() needs,
/// or all if options.keep_activations, with the logits of all rows. Applies `interventions`, if not null.
[[nodiscard]] Trace run_traced(Runner& runner, std::span<const int32_t> tokens, const Options& options,
                               const Interventions* interventions = nullptr);

/// A model's tensors, by role and layer. The model must outlive the object.
class Tensors {
 public:
  explicit Tensors(const core::StoredModel& model) : model_(model), manifest_(core::tensor_manifest(model.config)) {}

  [[nodiscard]] const core::ModelConfig& config() const { return model_.config; }
  /// Returns a tensor, or null if the model has none; floats() returns its values, or an empty list. `layer` is -1
  /// outside the layers. With tied embeddings, Output is the embedding.
  [[nodiscard]] const core::TensorView* find(core::Role role, int64_t layer = -1) const;
  [[nodiscard]] std::vector<float> floats(core::Role role, int64_t layer = -1) const;

 private:
  const core::StoredModel& model_;
  std::vector<core::TensorSpec> manifest_;
};

/// Computes a layer's "key" and, if `for_saving`, "projected_key" and "value" from the latents of latent attention.
void expand_latents(const Tensors& tensors, int64_t layer, Trace& trace, bool for_saving);

/// Replaces activations while a prompt runs.
class Interventions {
 public:
  /// Runs the texts whose activations the experiment uses as replacements. `clean`, the prompt's activations without
  /// interventions, must outlive this object. Throws core::Error if a name is malformed, if a layer, head or position
  /// does not exist, if a text has an invalid length (require_fits()), or if a patch has no source text.
  Interventions(Runner& runner, const Options& options, const Trace& clean);
  /// Applies the interventions to `values`, the activation `name`. `before` has the activations computed so far.
  /// Returns true if `values` changed.
  bool apply(const std::string& name, std::span<float> values, const Trace& before) const;
  /// Returns true if an intervention replaces the output of the layer's attention for this row.
  [[nodiscard]] bool replace_attention(int64_t layer, size_t row) const;

 private:
  // The replacement of one activation.
  struct One {
    std::string name{};             ///< the activation that is changed
    std::string base{};             ///< name of the residual stream to which the replaced branch is added; empty: none
    std::optional<int64_t> head{};  ///< the replaced head; empty: all
    std::optional<int64_t> to{};    ///< the replaced position; empty: all
    int64_t from = 0;               ///< the position of the source that replaces position `to`
    bool patches = false;
    std::shared_ptr<const Trace> source{};  ///< the activations used as replacements; null: zeros

    [[nodiscard]] bool replaces(size_t row, size_t n_rows) const;
  };
  void add(const std::string& place, const core::ModelConfig& config, size_t n_source, bool patches);

  std::vector<One> all_;
  const Trace& clean_;
  size_t head_dim_;
};

/// Returns sqrt(mean(x²) + eps), which RMSNorm divides by.
[[nodiscard]] double rms(std::span<const float> x, float eps);
[[nodiscard]] std::vector<float> difference(std::vector<float> after, const std::vector<float>& before);

/// Returns a layer's attention weights (heads, T, T): the softmax of the scaled and capped products of queries and
/// keys, over the positions that a row attends to. With sinks, a row sums to less than 1. Keys are not rounded to the
/// type of the KV cache. With latent attention, expand_latents() must be called first.
[[nodiscard]] std::vector<float> attention_weights(const Tensors& tensors, int64_t layer, const Trace& trace);

/// These four functions return the values of the JSON keys "lens", "candidates", "interventions" and "attribution".
/// `targets` has one token per row. The first three throw core::Error if a logit is not finite.
[[nodiscard]] Json logit_lens(Runner& runner, const Trace& trace, std::span<const int32_t> targets);
[[nodiscard]] Json candidates_of(const Trace& trace);
[[nodiscard]] Json effects_of(const Trace& before, const Trace& after, const Options& options);
[[nodiscard]] Json attribute(Runner& runner, const Tensors& tensors, const Trace& trace,
                             std::span<const int32_t> targets, const Interventions& interventions);

/// Returns all activations under their TransformerLens names. `attention` has each layer's attention_weights().
[[nodiscard]] std::map<std::string, Activation> named_activations(const core::ModelConfig& config, const Trace& trace,
                                                                  std::vector<std::vector<float>> attention);

}  // namespace folio::infer::explain
