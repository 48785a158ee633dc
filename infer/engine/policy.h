// How the sequences of a request continue. After each step a policy gets the logits of all of them, and returns which
// continue, and with which token: several may continue one sequence, which is forked then, and one that nothing
// continues is dropped. Sampling, where each sequence takes its own draw, needs none; beams.h is one, and a request may
// bring its own (Request::policy): experiments/18_sampling/halving.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace folio::infer {

/// Stop: an end token, a stop text or word, or a form that is complete and allows nothing more. Length: no more tokens
/// were requested, or the context ends. Form: the form is not complete, but no token of the vocabulary is allowed; also
/// of beams where there are fewer completions than requested: the others are empty.
enum class FinishReason { Stop, Length, Interrupted, Form };

[[nodiscard]] std::string_view finish_reason_name(FinishReason reason);

/// What a token would do to a sequence.
enum class TokenEffect : uint8_t {
  Continues,
  Ends,      ///< an end token, or one that completes a stop text, a stop word or the form
  Forbidden  ///< by the form, or because it is suppressed
};

/// A sequence whose next token is to be decided.
struct SequenceState {
  std::span<const int32_t> generated;  ///< tokens after the prompt
  std::span<const float> logits;       ///< (vocab_size), the model's, of the next token
  std::span<const float> allowed;      ///< the same, -inf where the form has no such token; empty: it has none at all
  int32_t sampled;                     ///< the token that the request's sampler draws, or negative: there is none
  double score;                        ///< of the continuation that it is; 0 at first
  std::function<TokenEffect(int32_t token)> effect_of;
};

/// One way to continue.
struct Continuation {
  size_t from;  ///< index of the sequence in the states
  int32_t token;
  bool ends = false;   ///< the sequence is complete with this token; those that must end do so in any case
  double score = 0.0;  ///< results come best first
};

class Policy {
 public:
  virtual ~Policy() = default;
  /// Returns the sequences of the next step, at most as many as the request has. In the next call `sequences` are those
  /// of them that have not ended, in the same order.
  [[nodiscard]] virtual std::vector<Continuation> decide(std::span<const SequenceState> sequences) = 0;
};

}  // namespace folio::infer
