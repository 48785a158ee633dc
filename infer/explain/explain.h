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

inline constexpr size_t kMostTokens = 256;  ///< of a prompt, and of an intervention's source

/// What replaces an activation. Mean: its mean over the positions of `source`. Patch: the activations of `source`.
enum class Replacement : uint8_t { Zero, Mean, Patch };

/// The replacement of one activation of each row.
struct Intervention {
  /// "L.heads", the output of all heads of layer L before Wo, or "L.H" of head H; "L.attention" or "L.ffn", what the
  /// branch adds to the residual stream; "L", both branches; "L.residual", the residual stream after the layer. A patch
  /// is aligned from the end: the last position gets that of the source's last position, and positions before the
  /// beginning of a shorter source stay. Followed by "@TO:FROM", only position TO is replaced, by position FROM.
  std::string place;
  Replacement by = Replacement::Zero;
  /// Tokens of another text, which runs without interventions. Empty: for Mean, the prompt; not allowed for Patch.
  std::vector<int32_t> source{};
};

struct Options {
  int32_t adapter = kNoAdapter;
  std::optional<int32_t> token{};  ///< the token whose logits are attributed; empty: each row's likeliest token
  std::vector<Intervention> interventions{};  ///< a later one replaces what an earlier one does at the same place
  size_t top_k = 40;  ///< limits whose numbers of candidates are counted, each alone and at temperature 1
  double top_p = 0.95;
  double min_p = 0.05;
  std::string server{};           ///< base of the URL of POST /v1/explain, if the page may run experiments
  bool keep_activations = false;  ///< fills Explanation::activations
  /// The machine that has the runner's model. If set, its operations are measured in another step. It is then disabled.
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

/// Runs the prompt, with the interventions if there are any, and explains what was computed. Throws core::Error if
/// there are no tokens, or more than kMostTokens or a step allows; if a token, place or position does not exist; if a
/// logit is not finite; or if the KV cache is full. No step of the runner may be in flight.
[[nodiscard]] Explanation explain(Runner& runner, const data::Tokenizer& tokenizer, const std::vector<int32_t>& tokens,
                                  const Options& options = {});

/// Returns Explanation::json as valid UTF-8, with four significant digits.
[[nodiscard]] std::string to_text(nlohmann::ordered_json json);

/// Returns a page for browsers that shows an explanation and needs no network.
[[nodiscard]] std::string to_html(const nlohmann::ordered_json& json);

/// Writes Explanation::activations as F32 to a safetensors file. Throws core::Error if it cannot be written.
void save(const Explanation& explanation, const std::filesystem::path& file);

}  // namespace folio::infer::explain
