// Explains how a model computes the next token of each position of a prompt: attention weights, logit lens, direct
// logit attribution, candidates, experts and the time of operations, also with parts of the model ablated or patched.
// The prompt is one step of a private sequence: nothing enters the prefix cache, and the sequence's blocks are freed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/forward/runner.h"
#include "infer/profile/profiled_machine.h"

namespace folio::infer::explain {

inline constexpr size_t kMostTokens = 256;  ///< of a prompt, and of an intervention's source
inline constexpr size_t kLensTokens = 5;    ///< likeliest tokens of a level of the logit lens
inline constexpr size_t kCandidates = 20;   ///< likeliest next tokens of a row

/// A part of a layer. Heads: the attention's output before Wo, of one head or of all. Attention, Ffn: what the branch
/// adds to the residual stream (behind its post-norm and residual scale; all experts together). Layer: both branches.
/// Residual: the residual stream after the layer.
enum class Part : uint8_t { Heads, Attention, Ffn, Layer, Residual };

/// What replaces the activation. Mean: its mean over the positions of `source`. Patch: the activation of `source`.
enum class Replacement : uint8_t { Zero, Mean, Patch };

/// A replacement of one activation of each row.
struct Intervention {
  int64_t layer = 0;
  Part part = Part::Heads;
  std::optional<int64_t> head{};  ///< of Part::Heads; empty: all heads
  Replacement by = Replacement::Zero;
  /// Tokens of another text, computed without interventions. Empty: for Mean, the prompt itself; not allowed for Patch.
  std::vector<int32_t> source{};
  /// Patch: the positions to replace and to read. Empty: all rows, aligned from the end: the last row gets the
  /// activation of the source's last position. Rows before the beginning of a shorter source stay.
  struct Positions {
    int64_t to;
    int64_t from;
  };
  std::optional<Positions> positions{};
};

/// Returns an intervention in words, such as "layer 3, head 5: zero".
[[nodiscard]] std::string describe(const Intervention& intervention);

struct Options {
  int32_t adapter = kNoAdapter;
  std::optional<int32_t> token{};  ///< attribution explains this token's logit; empty: the row's likeliest token
  std::vector<Intervention> interventions{};
  int32_t top_k = 40;  ///< limits that Candidates::n_top_k, n_top_p and n_min_p count
  float top_p = 0.95F;
  float min_p = 0.05F;
  bool keep_activations = false;  ///< fills Explanation::activations
  /// The machine that the runner's model is on. If set, another step is run to measure Explanation::operations.
  ProfiledMachine* profiled = nullptr;
};

struct TokenProbability {
  int32_t token;
  double p;
};

/// The next token according to one level of the residual stream: its final norm, output projection and softmax.
struct LensRow {
  std::vector<TokenProbability> top{};  ///< the likeliest tokens
  size_t rank = 1;                      ///< of the row's final likeliest token; 1: the likeliest here, too
  double p = 0.0;                       ///< its probability here
};

/// Shares of a row in a token's logit, with the factors of the final norm and of post-norms held (Elhage et al. 2021,
/// "A Mathematical Framework for Transformer Circuits"). They sum to the logit, with `remainder`: rounding, which
/// includes that of activations if weights are quantized, and updates of Wo by an adapter.
struct Attribution {
  int32_t token = 0;
  double logit = 0.0;  ///< before the configuration's logit_scale and logit_cap
  double embedding = 0.0;
  std::vector<std::vector<double>> heads{};  ///< [layer][head]
  std::vector<double> attention_bias{};      ///< [layer]; 0 if the family has no output bias
  std::vector<double> ffn{};                 ///< [layer]; routed and shared experts together
  double remainder = 0.0;
};

struct Candidate {
  int32_t token;
  float logit;
  double p;  ///< probability at temperature 1
};

/// The likeliest next tokens, and how many each limit alone would keep.
struct Candidates {
  std::vector<Candidate> list{};
  size_t n_top_k = 0;
  size_t n_top_p = 0;
  size_t n_min_p = 0;
};

struct ExpertWeight {
  int32_t expert;
  float weight;
};

/// A kind of operation in a step of the prompt: kWorkKinds, and the shape of its operands.
struct OperationTime {
  std::string kind;
  std::string shape;
  uint64_t bytes = 0;
  double milliseconds = 0.0;
};

/// What the interventions change in a row's next token.
struct Effect {
  std::vector<TokenProbability> before{};  ///< the likeliest tokens, kLensTokens
  std::vector<TokenProbability> after{};
  int32_t top = 0;                       ///< the likeliest token before
  double top_change = 0.0;               ///< of its log-probability, in nats
  std::optional<double> token_change{};  ///< of the log-probability of Options::token
  double kl = 0.0;                       ///< Kullback-Leibler divergence of `after` from `before`, in nats
};

struct Activation {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

/// Everything about a prompt of T tokens. With interventions, all but Effect::before describes the changed model. A
/// level of the residual stream is 0 for the embedding, l + 1 after layer l.
struct Explanation {
  std::vector<int32_t> tokens{};
  std::vector<std::vector<float>> attention{};                    ///< [layer]: (heads, T, T), weights of positions
  std::vector<std::vector<LensRow>> lens{};                       ///< [level][row]
  std::vector<std::vector<double>> residual{};                    ///< [level][row]: root mean square
  std::vector<Attribution> attribution{};                         ///< [row]
  std::vector<Candidates> candidates{};                           ///< [row]
  std::vector<std::vector<std::vector<ExpertWeight>>> experts{};  ///< [layer][row]; empty for a layer without experts
  std::vector<OperationTime> operations{};                        ///< empty unless Options::profiled is set
  std::vector<std::string> interventions{};                       ///< describe() of each
  std::vector<Effect> effects{};                                  ///< [row]; empty without interventions
  /// All activations, named as TransformerLens names its hooks: see save.cpp.
  std::map<std::string, Activation> activations{};
};

/// Runs the prompt and explains it. Throws core::Error if there are no tokens, or more than kMostTokens or one step
/// allows, a token, layer, head or position does not exist, a logit is not finite, or the cache has no room. No step of
/// the runner may be in flight.
[[nodiscard]] Explanation explain(Runner& runner, const std::vector<int32_t>& tokens, const Options& options = {});

}  // namespace folio::infer::explain
