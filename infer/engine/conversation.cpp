#include "infer/engine/conversation.h"

#include "core/error.h"

namespace folio::infer {

// Chat models end an answer with the template's end-of-turn mark, which may differ from the model file's end token.
void end_at_turn(const data::Tokenizer& tokenizer, const data::ChatTemplate& chat, GenerateOptions& options) {
  const std::string mark = data::end_of_turn(tokenizer, chat);
  if (mark.empty()) return;
  const int32_t id = tokenizer.special_tokens().id_of(mark);
  if (id >= 0) {
    options.end_tokens.push_back(id);
  } else {
    options.stops.push_back(mark);  // the mark is several tokens in this vocabulary
  }
}

Conversation::Conversation(Engine& engine, const data::Tokenizer& tokenizer, data::ChatTemplate chat_template,
                           std::optional<std::string> system)
    : engine_(engine), tokenizer_(tokenizer), template_(std::move(chat_template)) {
  if (system) messages_.push_back({.role = data::ChatRole::System, .content = std::move(*system)});
  n_system_ = messages_.size();
}

// Tokenizes the whole conversation again, because the tokens of an answer's text may differ from the generated ones,
// and a template may trim the text. Tokens before the first difference come from the prefix cache.
Answer Conversation::say(std::string text, const GenerateOptions& options,
                         const std::function<void(std::string_view)>& on_text, const Interrupted& interrupted) {
  core::require(!options.slide, "a conversation cannot use a sliding context: its first messages would be lost");
  std::vector<data::ChatMessage> messages = messages_;
  messages.push_back({.role = data::ChatRole::User, .content = std::move(text)});
  GenerateOptions ending = options;
  end_at_turn(tokenizer_, template_, ending);
  Answer answer;
  answer.prompt_tokens = data::encode_chat(tokenizer_, template_, messages);
  const size_t n = answer.prompt_tokens.size();
  const int64_t context = options.context == 0 ? engine_.config().context_length : options.context;
  core::require(static_cast<int64_t>(n) < context,
                "the conversation has {} tokens and fills the context of {}; start a new one with /reset", n, context);
  answer.result = generate(engine_, tokenizer_, answer.prompt_tokens, ending, on_text, interrupted);
  if (answer.result.finish_reason == FinishReason::Interrupted && answer.result.text.empty()) return answer;
  messages.push_back({.role = data::ChatRole::Assistant, .content = answer.result.text});
  messages_ = std::move(messages);
  return answer;
}

void Conversation::reset() { messages_.resize(n_system_); }

}  // namespace folio::infer
