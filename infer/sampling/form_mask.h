// Computes which tokens a form (the constraint of a structured output) allows next in a sequence, and whether the
// output may or must end. The form's state depends only on the output's tokens. States are cached, so only tokens that
// differ from those of the last call are processed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace folio::infer::forms {
class Form;
}

namespace folio::infer {

/// How an output can continue.
enum class Allowed : uint8_t {
  Tokens,  ///< one or more tokens are allowed next; the output may also be allowed to end
  End,     ///< the output is complete, and no token is allowed
  None     ///< the output is incomplete, but no token of the vocabulary is allowed
};

class FormMask {
 public:
  /// Creates the mask of allowed tokens for one sequence. `tokenizer` must outlive it. The tokenizer's end tokens and
  /// `end_tokens` are allowed where the output may end. The first n_prompt tokens of a history are not part of the
  /// output. Throws core::Error if the form was compiled for another vocabulary.
  FormMask(std::shared_ptr<forms::Form> form, const data::Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
           size_t n_prompt);

  // `history` is the prompt and the output so far. If the form throws core::Error, for example because the output has
  // too many parses, may_end() and allowed_after() rethrow it; the other functions treat it as allowing no token.
  /// Sets the logits (vocab_size) of all tokens that are not allowed to kForbidden. If no token is allowed, returns
  /// false and leaves the logits unchanged.
  [[nodiscard]] bool keep_allowed(std::span<float> logits, std::span<const int32_t> history);
  /// Returns the only allowed token, or -1 if several are allowed, the output may end before it, or must end after it.
  [[nodiscard]] int32_t forced(std::span<const int32_t> history);
  /// Returns the longest token whose bytes begin every valid continuation. The model may write these bytes as several
  /// tokens. Returns -1 if there is none, or if the output must end after it.
  [[nodiscard]] int32_t likely(std::span<const int32_t> history);
  /// Returns true if `token` is allowed and the form allows at least one token after it.
  [[nodiscard]] bool accepts(int32_t token, std::span<const int32_t> history);
  [[nodiscard]] bool may_end(std::span<const int32_t> history);
  [[nodiscard]] Allowed allowed_after(std::span<const int32_t> history);
  /// Returns how the output can continue after `history` and `token`. `token` must be allowed and not an end token.
  [[nodiscard]] Allowed allowed_after(std::span<const int32_t> history, int32_t token);

 private:
  using Place = int32_t;  ///< forms::Form::Place, a state of the form

  /// Calls `look` with the form's state after `history`, and returns its result.
  template <typename Look>
  [[nodiscard]] auto at(std::span<const int32_t> history, Look look);
  /// Calls `look` with the latest state and returns its result. If the form's memory is full, first frees other states.
  template <typename Look>
  [[nodiscard]] auto within_capacity(Look look);
  [[nodiscard]] Place after(Place place, int32_t token);
  [[nodiscard]] Allowed allowed_at(Place place);
  [[nodiscard]] bool accepts(int32_t token, Place place);
  [[nodiscard]] bool ends(int32_t token) const;
  void mask(std::span<float> logits, std::span<const std::pair<uint32_t, uint32_t>> allowed);

  std::shared_ptr<forms::Form> form_;
  const data::Tokenizer* tokenizer_;
  size_t n_prompt_;
  std::vector<int32_t> ends_;    ///< tokens that are allowed only where the output may end
  std::vector<int32_t> silent_;  ///< tokens that decode to no bytes; allowed only if they end the output
  uint64_t generation_ = 0;      ///< Form::generation() in which places_ are valid
  std::vector<int32_t> tokens_;  ///< output tokens of the last call's history
  std::vector<Place> places_;    ///< states before each of tokens_ and after the last one; kForgotten: freed
  std::vector<float> kept_;
};

}  // namespace folio::infer
