// Explains how a model computes the next token at each position of a prompt: attention weights, logit lens, direct
// logit attribution, candidate tokens, experts and operations. Activations can be replaced (ablation, patching). The
// prompt runs as one step of a private sequence: nothing enters the prefix cache, and all blocks are freed afterwards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "infer/forward/runner.h"
#include "infer/profile/profiled_machine.h"

namespace folio::infer::explain {

inline constexpr size_t kMostTokens = 256;  ///< maximum number of tokens in the prompt, and in `mean_over` and `from`

/// Activations to replace in each row, by name. "L.heads" is the output of all heads of layer L before Wo, and "L.H" is
/// that of head H. "L.attention" and "L.ffn" are what the attention or feed-forward branch adds to the residual stream;
/// "L" means both branches. "L.residual" is the residual stream after the layer. If lists overlap, `patch` overrides
/// `mean`, which overrides `ablate`.
struct Experiment {
  std::vector<std::string> ablate{};  ///< names of activations to replace with zeros
  std::vector<std::string> mean{};    ///< names of activations to replace with their mean over the text mean_over
  /// Names of activations to replace with those of the text `from`, aligned at the end: the last position gets the
  /// value at the last position of `from`. If `from` is shorter, the first positions are unchanged. With the suffix
  /// "@TO:FROM", only position TO is replaced, with the value at position FROM of `from`.
  std::vector<std::string> patch{};
  std::vector<int32_t> mean_over{};  ///< tokens of the text that `mean` averages over; empty: the prompt
  std::vector<int32_t> from{};       ///< tokens of the text that `patch` copies from

  [[nodiscard]] bool empty() const { return ablate.empty() && mean.empty() && patch.empty(); }
};

struct Options {
  int32_t adapter = kNoAdapter;
  std::optional<int32_t> token{};  ///< the token whose logits are attributed; empty: each row's likeliest token
  Experiment experiment{};         ///< applied to the prompt, but not to the texts mean_over and from
  bool keep_activations = false;   ///< fills Explanation::activations
  /// The machine that runs the model. If set, the prompt runs once more, without the experiment, to measure the
  /// operations; profiling is disabled afterwards. Null: nothing is measured.
  ProfiledMachine* profiled = nullptr;
};

struct Activation {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct Explanation {
  nlohmann::ordered_json json;  ///< docs/explain.md lists its keys; numbers are not rounded
  /// All activations, by TransformerLens hook name (activations.cpp); empty unless Options::keep_activations.
  std::map<std::string, Activation> activations{};
};

/// Runs the prompt, with the experiment if there is one, and explains what was computed. Throws core::Error if
/// `tokens` is empty; if a text is longer than kMostTokens, Runner::max_rows() or the context; if a name in the
/// experiment is malformed; if a token, layer, head or position does not exist; if a logit is not finite; if the KV
/// cache is full; or if the model runs in a pipeline of ranks. No step may be in flight.
[[nodiscard]] Explanation explain(Runner& runner, const data::Tokenizer& tokenizer, const std::vector<int32_t>& tokens,
                                  const Options& options = {});

/// Returns an Explanation::json as JSON text in valid UTF-8, with floats rounded to four significant digits.
[[nodiscard]] std::string to_text(nlohmann::ordered_json json);

/// Returns an HTML page that shows an explanation. It loads nothing from the network.
[[nodiscard]] std::string to_html(const nlohmann::ordered_json& json);

/// Writes Explanation::activations as F32 to a safetensors file. Throws core::Error if it cannot be written.
void save(const Explanation& explanation, const std::filesystem::path& file);

}  // namespace folio::infer::explain
