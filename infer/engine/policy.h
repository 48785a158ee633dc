// Decides how the sequences of a request continue. After each step, a policy gets the logits of all sequences and
// returns continuations: each is a sequence and its next token. A sequence with several continuations is forked, one
// with none is dropped. Plain sampling needs no policy. Beam search is a policy (beams.h). A request may supply another
// one, as in experiments/18_sampling/halving.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace folio::infer {

/// The cause of an output's end. Stop: an end token, a stop string or word, or a complete structured output that allows
/// no more tokens. Length: max_tokens or the context is reached. Interrupted: the caller cancelled the request. Form:
/// an incomplete structured output allows no token, or this output is empty because a search completed fewer sequences
/// than were requested.
enum class FinishReason { Stop, Length, Interrupted, Form };

[[nodiscard]] std::string_view finish_reason_name(FinishReason reason);

/// The effect of a token on a sequence.
enum class TokenEffect : uint8_t {
  Continues,
  Ends,      ///< an end token, or one that completes a stop string, a stop word or a structured output
  Forbidden  ///< suppressed, or not allowed by structured output
};

/// A sequence whose next token is to be decided.
struct SequenceState {
  std::span<const int32_t> generated;  ///< tokens after the prompt
  std::span<const float> logits;       ///< (vocab_size), the model's logits for the next token
  std::span<const float> allowed;      ///< `logits` with -inf where structured output forbids; empty: no token allowed
  int32_t sampled;                     ///< the token drawn by the request's sampler; negative: none
  double score;                        ///< score of the Continuation that led to this sequence, 0 at first
  std::function<TokenEffect(int32_t token)> effect_of;
};

/// One way to continue a sequence.
struct Continuation {
  size_t from;  ///< index of the continued sequence in decide()'s argument
  int32_t token;
  bool ends = false;   ///< completes the sequence with this token; implied for an end token and at the maximum length
  double score = 0.0;  ///< orders the results, highest first
};

class Policy {
 public:
  virtual ~Policy() = default;
  /// Returns the continuations. Those that don't end become the `sequences` of the next call, in the same order; there
  /// may be at most as many as the request has sequences.
  [[nodiscard]] virtual std::vector<Continuation> decide(std::span<const SequenceState> sequences) = 0;
};

}  // namespace folio::infer
