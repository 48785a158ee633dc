#include "tests/fuzz/forms.h"

#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"
#include "tests/infer/forms/support.h"

namespace folio::fuzz {
namespace {

using infer::forms::Form;

// Returns a tokenizer with a token for each byte, and tokens for strings that are frequent in grammars and JSON.
const data::Tokenizer& vocabulary() {
  static const infer::forms::test::ListTokenizer tokenizer = [] {
    std::vector<std::string> texts{"",    "ab", "aaaa", "abcabc", "\"a",  "\":\"", "{\"",
                                   "},{", "00", "0.0",  "é",      "日本", " \n"};
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    return infer::forms::test::ListTokenizer(texts);
  }();
  return tokenizer;
}

}  // namespace

bool take_form(const infer::forms::FormOptions& options, const char* where) {
  static const auto tokens = std::make_shared<infer::forms::TokenTree>(vocabulary());
  std::shared_ptr<Form> form;
  if (!accepted([&] { form = infer::forms::make_form(options, tokens); }, where)) return false;
  // accepted() allows a core::Error here: an ambiguous grammar may have too many parses of an output.
  accepted(
      [&] {
        Form::Place place = form->start();
        for (int i = 0; i < 12; ++i) {
          const auto allowed = infer::forms::test::allowed_ids(*form, place);
          check(allowed == infer::forms::test::tried_ids(*form, place, vocabulary()),
                "a mask allows exactly the tokens whose bytes are valid next");
          check(form->may_end(place) || !allowed.empty(), "an output that can't end has allowed tokens");
          if (allowed.empty()) return;
          const auto forced = form->forced(place);
          check(!forced || form->after(place, *forced) != Form::kDead, "forced bytes are valid");
          place = form->after(place, vocabulary().token_bytes(allowed[static_cast<size_t>(i * 7) % allowed.size()]));
        }
      },
      "");
  return true;
}

}  // namespace folio::fuzz
