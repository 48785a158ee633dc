// Decides how the sequences of a request continue. After each step a policy gets the logits of all sequences and
// returns continuations: a sequence and its next token. A sequence with several is forked, one with none is dropped.
// Plain sampling needs no policy. beams.h is one, and a request may supply its own (Request::policy), as in
// experiments/18_sampling/halving.h.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace folio::infer {

/// Why an output ended. Stop: an end token, a stop string or word, or a complete form that allows nothing more. Length:
/// max_tokens or the context is reached. Form: an incomplete form allows no token of the vocabulary; also the reason of
/// empty results if a search completes fewer sequences than requested.
enum class FinishReason { Stop, Length, Interrupted, Form };

[[nodiscard]] std::string_view finish_reason_name(FinishReason reason);

/// The effect of a token on a sequence.
enum class TokenEffect : uint8_t {
  Continues,
  Ends,      ///< an end token, or one that completes a stop string, a stop word or the form
  Forbidden  ///< rejected by the form, or suppressed
};

/// A sequence whose next token is to be decided.
struct SequenceState {
  std::span<const int32_t> generated;  ///< tokens after the prompt
  std::span<const float> logits;       ///< (vocab_size), the model's logits for the next token
  std::span<const float> allowed;      ///< `logits` with -inf for tokens that the form forbids; empty if it forbids all
  int32_t sampled;                     ///< the token that the request's sampler draws; negative: none
  double score;                        ///< score of the Continuation that led to this sequence, 0 at first
  std::function<TokenEffect(int32_t token)> effect_of;
};

/// One way to continue a sequence.
struct Continuation {
  size_t from;  ///< index of the sequence in the states
  int32_t token;
  bool ends = false;   ///< completes the sequence with this token; implied if the token or the length ends it
  double score = 0.0;  ///< orders the results, highest first
};

class Policy {
 public:
  virtual ~Policy() = default;
  /// Returns the continuations. Those that do not end may not exceed the number of the request's sequences; they are
  /// the `sequences` of the next call, in the same order.
  [[nodiscard]] virtual std::vector<Continuation> decide(std::span<const SequenceState> sequences) = 0;
};

}  // namespace folio::infer
