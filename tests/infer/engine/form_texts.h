// Helpers for tests of structured output: requests, and a tokenizer with many tokenizations of each string.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/infer/engine/letter_tokenizer.h"
#include "tests/infer/engine/texts.h"
#include "tests/infer/forms/support.h"

namespace folio::infer::test {

/// Returns a tokenizer of 37 tokens: letters and pieces of several letters, so that a string has many tokenizations.
/// Tokens 0 and 36 have no bytes; 36 is the end token. The letter x occurs only as the first letter of a piece.
inline MadeTokenizer piece_tokenizer() {
  const std::string letters = "abcd-!";
  std::vector<std::string> pieces = {"", "xy", "z"};
  for (const char letter : letters) pieces.emplace_back(1, letter);
  for (const char a : letters.substr(0, 5)) {
    for (const char b : letters.substr(0, 5)) {
      if (a != b) pieces.push_back({a, b});
    }
  }
  for (const char* piece : {"abc", "a-b-", "-a", "d!", "c-d!", "bb"}) pieces.emplace_back(piece);
  pieces.resize(36);
  pieces.emplace_back();
  return MadeTokenizer(pieces, {0});
}

class FormTexts : public Texts {
 protected:
  [[nodiscard]] Request drawing(std::shared_ptr<forms::Form> form, uint64_t seed, int64_t max_tokens = 40,
                                size_t n_prompt = 20) const {
    return {.prompt = tokens(n_prompt, seed),
            .options = {.max_tokens = max_tokens,
                        .sampler = {.temperature = 1.5F, .top_p = 1.0F, .seed = seed},
                        .form = std::move(form)},
            .tokenizer = &pieces_};
  }
  // Expects the request's grammar to accept the output, or if the output is truncated, to accept a continuation of it.
  static void expect_fits(const GenerateResult& result, const Request& request) {
    forms::Form& form = *request.options.form;
    const forms::Form::Place end = form.after(form.start(), result.text);
    ASSERT_NE(end, forms::Form::kDead) << result.text;
    const bool may_stop = !request.options.stops.empty() || !request.options.stop_words.empty();
    EXPECT_TRUE(result.finish_reason != FinishReason::Stop || may_stop || form.may_end(end)) << result.text;
  }

  const MadeTokenizer pieces_ = piece_tokenizer();
};

}  // namespace folio::infer::test
