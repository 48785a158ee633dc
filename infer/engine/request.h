// What a caller asks of the engine, and what it gets.
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

/// How a text goes on.
struct GenerateOptions {
  int64_t max_tokens = 0;  ///< tokens to generate; 0: none is sampled
  SamplerOptions sampler{};
  core::SharedVector<std::string> stops{};  ///< texts that end it; need a tokenizer
  std::vector<int32_t> end_tokens{};        ///< end the text, beside those of the tokenizer's ends_text()
  /// End it, too, as its last tokens; the first ones of such a word may be the prompt's.
  std::vector<std::vector<int32_t>> stop_words{};
  /// At most so many tokens are guessed (see Engine::draft_with) and tried in one step; 0: none. The result is the
  /// same, and comes faster where guesses are right. Nothing is guessed for beams.
  size_t speculate = 0;
  int64_t context = 0;           ///< positions that may be used; 0: the model's context length
  bool slide = false;            ///< at the end of the context keep the last half and go on
  int32_t adapter = kNoAdapter;  ///< of Engine::load_adapter(): it computes the prompt, too
  /// Another prompt that goes on from the text finds what the cache holds of its last block, too.
  bool remember_tail = false;
  /// What the text behind the prompt has to be; null: anything. Needs the request's tokenizer, which it was made for.
  /// Requests may share one, of one engine alone: no other thread may use it while the engine runs.
  std::shared_ptr<forms::Form> form{};
  int64_t n = 1;        ///< texts that are wanted: each sampled with its choice_seed(), or the best of the beams
  BeamOptions beams{};  ///< without any, tokens are sampled; with them, bad_words alone are used of the sampler's
};

/// What text `choice` of a request draws with: the first with the seed itself, the others with a hash of both.
[[nodiscard]] uint64_t choice_seed(uint64_t seed, size_t choice);

struct GenerateResult;

/// A prompt, what is wanted of its rows, and how it goes on. The callbacks are called from step(), or from add() or
/// cancel() where a text ends there, and must not call the engine. `choice` counts the texts, of n, from 0.
struct Request {
  std::vector<int32_t> prompt;

  // Of the prompt's rows.
  /// Gets ln p(prompt[i + 1] | prompt[0..i]) for consecutive i, from the first row that is computed on.
  std::function<void(std::span<const double> log_probs)> on_log_probs{};
  /// Gets (rows, vocab_size) likewise.
  std::function<void(std::span<const float> logits)> on_logits{};
  /// Sees the steps of this request, in which no other takes part. For one choice alone, and no beams.
  Observer observer{};

  // How it goes on.
  GenerateOptions options{};
  /// Gives the text its bytes, and says which tokens end it and which are suppressed. Null: tokens alone, of which any
  /// may be sampled and none ends.
  const data::Tokenizer* tokenizer = nullptr;
  /// Gets the text as it comes, in whole UTF-8 characters; of beams all at the end.
  std::function<void(size_t choice, std::string_view text)> on_text{};
  /// Gets each token that is part of the result, before its text; and, if wants_token_logits, the logits (vocab_size)
  /// that the model gave before it, as they were before biases and penalties. Of beams at the end, without logits.
  std::function<void(size_t choice, int32_t token, std::span<const float> logits)> on_token{};
  bool wants_token_logits = false;
  /// Asked when a choice's text has come: true ends the choice there, with FinishReason::Stop. Beams are not asked.
  std::function<bool(size_t choice)> is_enough{};
  /// Gets the result of a choice that has ended.
  std::function<void(size_t choice, const GenerateResult& result)> on_end{};
  /// Output that the caller has not read, as the caller counts it; while it is full the request is paused. Null: never.
  /// Not for a policy, which gives nothing before its end.
  std::shared_ptr<const Backlog> backlog{};
  /// Decides how the n choices, which start as n samples, continue; the results are those that it leaves, best
  /// first, and come at the end as those of beams. Empty: each is sampled to its end, or, with options.beams, the
  /// search decides.
  /// Choices beyond the sequences that the policy completes have no result and no on_end.
  std::function<std::unique_ptr<Policy>()> policy{};
};

/// Returns `request` with the model's context where it has none. Throws core::Error if it cannot run on the model.
[[nodiscard]] Request checked(Request request, const core::ModelConfig& config);

/// One text.
struct GenerateResult {
  std::vector<int32_t> tokens{};  ///< generated, without the prompt
  std::string text{};             ///< what they say, up to a stop string
  FinishReason finish_reason = FinishReason::Length;
  std::optional<double> score{};  ///< of a beam: BeamSearch::score()
  size_t n_cached = 0;            ///< tokens of the prompt that were cached, and not computed
  size_t n_drafts = 0;            ///< that were tried
  size_t n_right = 0;             ///< drafts that were
  double prefill_seconds = 0.0;   ///< from the first step to the first token
  double decode_seconds = 0.0;    ///< of all tokens after the first
};

}  // namespace folio::infer
