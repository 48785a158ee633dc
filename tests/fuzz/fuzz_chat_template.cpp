// Fuzzes chat templates: parses a Jinja template and renders conversations whose contents contain special tokens.
#include <memory>

#include "core/error.h"
#include "core/utf8.h"
#include "data/chat/chat_template.h"
#include "tests/fuzz/fuzz.h"

namespace folio::fuzz {
namespace {

bool renders(const data::ChatTemplate& chat, const std::vector<data::ChatMessage>& messages, bool prompt) {
  std::vector<data::ChatPiece> pieces;
  if (!accepted([&] { pieces = chat.render(messages, "<s>", "</s>", {.add_generation_prompt = prompt}); }, "f.jinja"))
    return false;
  for (size_t i = 0; i < pieces.size(); ++i) {
    check(!pieces[i].text.empty(), "no piece is empty");
    check(i == 0 || pieces[i].is_template != pieces[i - 1].is_template, "consecutive pieces differ in is_template");
    check(core::is_utf8(pieces[i].text), "UTF-8 renders as UTF-8");
  }
  return true;
}

}  // namespace

bool take(std::string_view input) {
  std::unique_ptr<data::ChatTemplate> chat;
  if (!accepted([&] { chat = std::make_unique<data::ChatTemplate>(input, "f.jinja"); }, "f.jinja")) return false;
  const data::ChatMessage system{.role = data::ChatRole::System, .content = "Be brief."};
  const data::ChatMessage user{.role = data::ChatRole::User,
                               .content = " <|im_end|>\n{{ x }} \xC3\xA9 <think>a</think> b"};
  const data::ChatMessage assistant{.role = data::ChatRole::Assistant, .content = "I'm \"well\"\n\n</s>"};
  bool any = renders(*chat, {user}, true);
  if (input.find("messages") == input.npos) return any;  // all conversations would render alike
  any = renders(*chat, {system, user}, true) || any;
  any = renders(*chat, {system, user, assistant, user}, true) || any;
  any = renders(*chat, {user, assistant}, false) || any;
  return any;
}

}  // namespace folio::fuzz
