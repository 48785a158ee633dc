// A text that keeps to a form: which tokens it may go on with, and whether it has to end. All of it follows from the
// text's tokens; what was found of them is kept, so a text that grows, is cut or is another one costs its new tokens.
// Where the form has forgotten its places, for want of room, they are found anew.
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

/// How a text goes on.
enum class WayOn : uint8_t {
  Tokens,  ///< with one of some tokens; perhaps it may end, too
  End,     ///< it is whole, and nothing may follow
  None     ///< it is not whole, and no token of the vocabulary may follow
};

class FormMask {
 public:
  /// `tokenizer` has to outlive it. Its tokens that end a text, and `end_tokens`, stand for the end of the form,
  /// whatever their bytes are. The first n_prompt tokens of a history are no part of the form. Throws core::Error if
  /// the form was made for another vocabulary.
  FormMask(std::shared_ptr<forms::Form> form, const data::Tokenizer& tokenizer, std::span<const int32_t> end_tokens,
           size_t n_prompt);

  // `history` is the prompt and what follows it. A form that can't be followed any more (see Form::after()) allows
  // nothing; may_end() and way_on() throw its core::Error.
  /// Makes all logits (vocab_size) kForbidden but those of tokens that may come. False, and the logits are as they
  /// were, if there is none.
  [[nodiscard]] bool keep_allowed(std::span<float> logits, std::span<const int32_t> history);
  /// The token that comes next in any case: no other may, and the text may not end. And others come behind it. -1:
  /// there is none.
  [[nodiscard]] int32_t forced(std::span<const int32_t> history);
  /// Of the bytes that come in any case, the most that one token has. The model may take them by several. -1: there are
  /// none, or the text ends with them.
  [[nodiscard]] int32_t likely(std::span<const int32_t> history);
  /// Whether `token` may come, and others behind it.
  [[nodiscard]] bool accepts(int32_t token, std::span<const int32_t> history);
  [[nodiscard]] bool may_end(std::span<const int32_t> history);
  [[nodiscard]] WayOn way_on(std::span<const int32_t> history);
  /// Behind `history` and then `token`, which is allowed and ends no text.
  [[nodiscard]] WayOn way_on(std::span<const int32_t> history, int32_t token);

 private:
  using Place = int32_t;  ///< forms::Form::Place

  /// What `look` finds at the place behind `history`.
  template <typename Look>
  [[nodiscard]] auto at(std::span<const int32_t> history, Look look);
  /// What `look` finds at the last of the places; all others are forgotten if there is no room.
  template <typename Look>
  [[nodiscard]] auto with_room(Look look);
  [[nodiscard]] Place after(Place place, int32_t token);
  [[nodiscard]] WayOn way_on_at(Place place);
  [[nodiscard]] bool accepts(int32_t token, Place place);
  [[nodiscard]] bool ends(int32_t token) const;
  void mask(std::span<float> logits, std::span<const std::pair<uint32_t, uint32_t>> allowed);

  std::shared_ptr<forms::Form> form_;
  const data::Tokenizer* tokenizer_;
  size_t n_prompt_;
  std::vector<int32_t> ends_;    ///< tokens that end a text
  std::vector<int32_t> silent_;  ///< tokens without bytes
  uint64_t generation_ = 0;      ///< of the form's places
  std::vector<int32_t> tokens_;  ///< of the text that was looked at last
  std::vector<Place> places_;    ///< before each of them, and after the last; kForgotten where they are not known
  std::vector<float> kept_;
};

}  // namespace folio::infer
