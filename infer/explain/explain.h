// Explains how a model computes the next token of each position of a prompt: attention weights, logit lens, direct
// logit attribution, candidates, experts and operations, also with activations replaced. The prompt is one step of a
// private sequence: nothing enters the prefix cache, and the sequence's blocks are freed afterwards.
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

inline constexpr size_t kMostTokens = 256;  ///< of a prompt, and of each text of an experiment

/// Activations of each row to replace, by place: "L.heads", the output of all heads of layer L before Wo, or "L.H" of
/// head H; "L.attention" or "L.ffn", what the branch adds to the residual stream; "L", both branches; "L.residual", the
/// residual stream after the layer. At the same place, a patch counts before a mean, and a mean before zero.
struct Experiment {
  std::vector<std::string> ablate{};  ///< by zero
  std::vector<std::string> mean{};    ///< by their means over the positions of mean_over
  /// By those of `from`, aligned from the end: the last position gets that of the last position of `from`, and
  /// positions before the beginning of a shorter `from` stay. With "@TO:FROM" after it, only position TO is replaced,
  /// by FROM.
  std::vector<std::string> patch{};
  std::vector<int32_t> mean_over{};  ///< tokens of another text; empty: the prompt
  std::vector<int32_t> from{};       ///< tokens of another text

  [[nodiscard]] bool empty() const { return ablate.empty() && mean.empty() && patch.empty(); }
};

struct Options {
  int32_t adapter = kNoAdapter;
  std::optional<int32_t> token{};  ///< the token whose logits are attributed; empty: each row's likeliest token
  Experiment experiment{};         ///< its other texts run without it
  bool keep_activations = false;   ///< fills Explanation::activations
  /// The machine that runs the model. If set, a second step measures its operations; then profiling is disabled.
  ProfiledMachine* profiled = nullptr;
};

struct Activation {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct Explanation {
  nlohmann::ordered_json json;  ///< docs/explain.md lists its keys; numbers are not rounded
  /// All activations, named as TransformerLens names its hooks (activations.cpp), if requested.
  std::map<std::string, Activation> activations{};
};

/// Runs the prompt, with the experiment if there is one, and explains what was computed. Throws core::Error if there
/// are no tokens, or more than kMostTokens or a step allows; if a token, place or position does not exist; if a logit
/// is not finite; or if the KV cache is full. No step of the runner may be in flight.
[[nodiscard]] Explanation explain(Runner& runner, const data::Tokenizer& tokenizer, const std::vector<int32_t>& tokens,
                                  const Options& options = {});

/// Returns Explanation::json as valid UTF-8, with four significant digits.
[[nodiscard]] std::string to_text(nlohmann::ordered_json json);

/// Returns a page for browsers that shows an explanation and needs no network.
[[nodiscard]] std::string to_html(const nlohmann::ordered_json& json);

/// Writes Explanation::activations as F32 to a safetensors file. Throws core::Error if it cannot be written.
void save(const Explanation& explanation, const std::filesystem::path& file);

}  // namespace folio::infer::explain
