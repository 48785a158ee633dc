// A request to the engine, and its result.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shared_vector.h"
#include "data/tokenizers/tokenizer.h"
#include "infer/engine/backlog.h"
#include "infer/engine/beams.h"
#include "infer/engine/policy.h"
#include "infer/forward/forward.h"
#include "infer/sampling/sampler.h"

namespace folio::infer::forms {
class Form;
}

namespace folio::infer {

/// Options that control how a prompt is continued.
struct GenerateOptions {
  int64_t max_tokens = 0;  ///< maximum number of tokens to generate; 0: none
  SamplerOptions sampler{};
  core::SharedVector<std::string> stops{};  ///< stop strings; need a tokenizer
  std::vector<int32_t> end_tokens{};        ///< tokens that end the output, in addition to the tokenizer's end tokens
  /// Token sequences that end the output when its last tokens match. A match may begin in the prompt.
  std::vector<std::vector<int32_t>> stop_words{};
  /// Maximum number of draft tokens per step (see Engine::draft_with); 0: no speculation. The output stays the same and
  /// is faster if drafts are correct. Ignored with beams, a policy or Request::wants_token_logits.
  size_t speculate = 0;
  int64_t context = 0;           ///< maximum positions to use; 0: the model's context length
  bool slide = false;            ///< when the context is full, keep its last half and continue
  int32_t adapter = kNoAdapter;  ///< id from Engine::load_adapter(); applies to the prompt, too
  /// Also caches the sequence's partial last block, for later prompts that begin with this sequence.
  bool remember_tail = false;
  /// Constrains the output; null: any output. Must be made for the request's tokenizer. Requests of one engine may
  /// share it, but no other thread may use it while the engine runs.
  std::shared_ptr<forms::Form> form{};
  int64_t n = 1;        ///< number of outputs: samples, each seeded with choice_seed(), or the best beams
  BeamOptions beams{};  ///< width > 0: beam search instead of sampling; of `sampler`, only bad_words is used
};

/// Returns the seed of a choice: `seed` itself for the first one, a hash of both arguments for the others.
[[nodiscard]] uint64_t choice_seed(uint64_t seed, size_t choice);

struct GenerateResult;

/// A prompt, its options, and callbacks for its results. Callbacks run inside Engine::step(), or inside add() or
/// cancel() if an output ends there, and must not call the engine. `choice` is the index of one of the n outputs.
struct Request {
  std::vector<int32_t> prompt;

  // Reports on the prompt.
  /// Receives ln p(prompt[i + 1] | prompt[0..i]) for i = 0, 1, …, in one or more calls. If set, the whole prompt is
  /// computed, without the prefix cache.
  std::function<void(std::span<const double> log_probs)> on_log_probs{};
  /// Receives the logits of all prompt rows in order, (rows, vocab_size) per call. If set, the whole prompt is
  /// computed, without the prefix cache.
  std::function<void(std::span<const float> logits)> on_logits{};
  /// Observes the steps of this request, which then run no other request. Rows that are computed again, such as after a
  /// preemption, are not observed again. Only allowed with n = 1 and without beams. Must not change activations and
  /// must return false, since the prefix cache may keep the computed positions.
  Observer observer{};

  // Options and callbacks for the prompt's continuation.
  GenerateOptions options{};
  /// Decodes the output, and defines its end tokens and suppressed tokens. Null: the output is not decoded, no token is
  /// suppressed, and only the end tokens in `options` end it.
  const data::Tokenizer* tokenizer = nullptr;
  /// Receives output as it is generated, in whole UTF-8 characters. With beams or a policy, called at the end.
  std::function<void(size_t choice, std::string_view text)> on_text{};
  /// Receives each token of the result, before its text. If wants_token_logits is true, `logits` has the model's logits
  /// (vocab_size) before biases and penalties, else it is empty. With beams or a policy, called at the end, without
  /// logits.
  std::function<void(size_t choice, int32_t token, std::span<const float> logits)> on_token{};
  bool wants_token_logits = false;
  /// Called after a choice's new output; returns true to end the choice with FinishReason::Stop. Not called with
  /// beams or a policy.
  std::function<bool(size_t choice)> is_enough{};
  /// Receives the result of each choice that ends.
  std::function<void(size_t choice, const GenerateResult& result)> on_end{};
  /// Counts the bytes of output that the caller has not consumed; at its limit, the request is paused. Null: never
  /// paused. Not allowed with beams or a policy, whose output comes at the end.
  std::shared_ptr<const Backlog> backlog{};
  /// Creates the policy that decides how the request's n sequences continue. The results are the sequences that it
  /// completes, best first, delivered when the request ends. If there are fewer than n, on_end is called only for
  /// these. Empty: no policy, so each choice is sampled, or options.beams is used.
  std::function<std::unique_ptr<Policy>()> policy{};
};

/// Returns `request`; if options.context is 0, it is set to the model's context length. Throws core::Error if the model
/// cannot run the request.
[[nodiscard]] Request checked(Request request, const core::ModelConfig& config);

/// The result of one choice, which is one of a request's n outputs.
struct GenerateResult {
  std::vector<int32_t> tokens{};  ///< generated tokens, without the prompt
  std::string text{};             ///< decoded tokens, up to a stop string
  FinishReason finish_reason = FinishReason::Length;
  std::optional<double> score{};  ///< with beams or a policy: orders the results, highest first; else empty
  size_t n_cached = 0;            ///< prompt tokens found in the KV cache
  size_t n_drafts = 0;            ///< draft tokens tried
  size_t n_right = 0;             ///< draft tokens accepted
  double prefill_seconds = 0.0;   ///< time from the first step to the first token
  double decode_seconds = 0.0;    ///< time from the first token to the end
};

}  // namespace folio::infer
