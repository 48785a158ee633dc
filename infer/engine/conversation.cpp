#include "infer/engine/conversation.h"

#include <algorithm>

#include "core/error.h"

namespace folio::infer {
namespace {

std::vector<data::ChatMessage> first_messages(std::optional<std::string> system) {
  if (!system) return {};
  return {{.role = data::ChatRole::System, .content = std::move(*system)}};
}

}  // namespace

Conversation::Conversation(Engine& engine, const data::Tokenizer& tokenizer, data::ChatTemplate chat_template,
                           std::optional<std::string> system)
    : engine_(engine),
      tokenizer_(tokenizer),
      template_(std::move(chat_template)),
      messages_(first_messages(std::move(system))),
      n_system_(messages_.size()),
      sequence_(engine.cache()) {}

Answer Conversation::say(std::string text, const GenerateOptions& options,
                         const std::function<void(std::string_view)>& on_text) {
  core::require(!options.slide, "a conversation cannot slide: its first messages would be lost");
  const size_t n_before = messages_.size();
  try {
    messages_.push_back({.role = data::ChatRole::User, .content = std::move(text)});
    Answer answer = this->answer(with_end_of_turn(options), on_text);
    if (answer.result.finish_reason == FinishReason::Interrupted && answer.result.text.empty()) {
      messages_.resize(n_before);
    } else {
      messages_.push_back({.role = data::ChatRole::Assistant, .content = answer.result.text});
    }
    return answer;
  } catch (...) {
    messages_.resize(n_before);
    throw;
  }
}

// The whole conversation is tokenized anew: what was said as some tokens may be read as others, and a template may trim
// it. From the first token that differs on, it is computed.
Answer Conversation::answer(const GenerateOptions& options, const std::function<void(std::string_view)>& on_text) {
  Answer answer;
  answer.prompt_tokens = data::encode_chat(tokenizer_, template_, messages_);
  const std::vector<int32_t>& prompt = answer.prompt_tokens;
  const int64_t context = options.context == 0 ? engine_.config().context_length : options.context;
  core::require(static_cast<int64_t>(prompt.size()) < context,
                "the conversation has {} tokens, and the context has room for {}: /reset begins anew", prompt.size(),
                context);
  const auto parted = std::mismatch(held_.begin(), held_.end(), prompt.begin(), prompt.end()).first;
  // The last token is computed in any case: its logits give the answer's first token.
  keep(std::min(static_cast<size_t>(parted - held_.begin()), prompt.size() - 1));
  answer.n_cached = held_.size();
  try {
    answer.result = generate_on(engine_, tokenizer_, sequence_.id(), prompt, options, on_text);
  } catch (...) {
    keep(answer.n_cached);
    throw;
  }
  held_ = prompt;
  held_.insert(held_.end(), answer.result.tokens.begin(), answer.result.tokens.end());
  held_.resize(static_cast<size_t>(engine_.cache().length(sequence_.id())));  // the last one sampled was not run
  return answer;
}

// A model says its template's mark at the end of an answer, whatever its file calls the end of a text.
GenerateOptions Conversation::with_end_of_turn(GenerateOptions options) const {
  const std::string mark = data::end_of_turn(tokenizer_, template_);
  if (mark.empty()) return options;
  const int32_t id = tokenizer_.special_tokens().id_of(mark);
  if (id >= 0) {
    options.end_tokens.push_back(id);
  } else {
    options.stops.push_back(mark);  // not one token in this vocabulary
  }
  return options;
}

void Conversation::reset() {
  messages_.resize(n_system_);
  keep(0);
}

void Conversation::keep(size_t n_tokens) {
  held_.resize(n_tokens);
  engine_.cache().truncate(sequence_.id(), static_cast<int64_t>(n_tokens));
}

}  // namespace folio::infer
