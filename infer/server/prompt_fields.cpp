// Parses the prompts of a request: texts, token IDs, and chats, which are rendered with the chat template.
#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/chat/chat_messages.h"
#include "infer/server/request_fields.h"

namespace folio::infer::server {
namespace {

data::PromptOptions prompt_options(const Fields& fields) {
  return {.parse_special = fields.flag("parse_special"), .add_special = fields.flag("add_special_tokens")};
}

Prompt encoded(const std::string& field, std::string text, data::PromptOptions options, const ServedModel& served,
               const core::WorkBudget& budget) {
  return made_for(field, field, budget, [&] {
    budget.spend(text.size());
    const bool has_prefix = std::exchange(options.add_special, false);
    Prompt prompt{.tokens = served.tokenizer.encode_prompt(text, options),
                  .text = std::move(text),
                  .parse_special = options.parse_special};
    const size_t n = prompt.tokens.size();
    if (has_prefix) prompt.tokens = served.tokenizer.with_prefix(std::move(prompt.tokens));
    prompt.n_added = prompt.tokens.size() - n;
    return prompt;
  });
}

Prompt prompt_of_ids(const Json& list, const std::string& field, const ServedModel& served) {
  std::vector<int32_t> ids;
  for (const Json& id : list) ids.push_back(token_id(field, id, served));
  if (ids.empty()) refuse(field, "is an empty list of tokens");
  return {.tokens = std::move(ids), .text = "", .came_as_ids = true};
}

std::vector<data::ChatMessage> messages_of(const Json* list) {
  try {
    return data::chat_messages(list == nullptr ? Ordered() : Ordered(*list), data::MessageForm::OpenAi);
  } catch (const core::Error& error) {
    refuse("messages", "{}", error.what());
  }
}

}  // namespace

int32_t token_id(const std::string& field, const Json& id, const ServedModel& served) {
  if (id.is_number_integer() && id >= 0 && id < served.tokenizer.vocab_size()) return id.get<int32_t>();
  refuse(field, "has {}, which is not a token; the vocabulary has the IDs 0 to {}", core::printable(id.dump()),
         served.tokenizer.vocab_size() - 1);
}

void check_text_of(const std::string& field, std::span<const Prompt> prompts, const ServedModel& served) {
  constexpr size_t kMost = size_t{16} << 20U;
  size_t n = 0;
  for (const Prompt& prompt : prompts) {
    if (!prompt.came_as_ids) continue;
    for (const int32_t token : prompt.tokens) n += served.tokenizer.token_bytes(token).size();
  }
  if (n > kMost) refuse(field, "is {} bytes of text, more than {}; send fewer tokens", n, kMost);
}

size_t n_prompts_of(const Json* prompt, const ServedModel& served) {
  if (prompt == nullptr || prompt->is_string()) return 1;
  if (!prompt->is_array() || prompt->empty()) refuse_type("prompt", "a string, token IDs, or a list of these");
  if (prompt->front().is_number()) return 1;
  if (std::ssize(*prompt) > served.max_choices)
    refuse("prompt", "has {} prompts, but at most {} are allowed", prompt->size(), served.max_choices);
  return prompt->size();
}

Prompt prompt_of(const std::string& field, const Json& given, const Fields& fields, const ServedModel& served,
                 const core::WorkBudget& budget) {
  const data::PromptOptions options = prompt_options(fields);
  if (given.is_array()) return prompt_of_ids(given, field, served);
  if (!given.is_string()) refuse_type(field, "a string, token IDs, or a list of these");
  Prompt made = encoded(field, given, options, served, budget);
  if (made.tokens.empty()) {  // the model needs at least one token
    made.tokens = served.tokenizer.default_prompt();
    made.n_added = made.tokens.size();
  }
  return made;
}

std::vector<Prompt> prompts_of(const Json* prompt, const Fields& fields, const ServedModel& served,
                               const core::WorkBudget& budget) {
  const auto one = [&](const Json& given) { return prompt_of("prompt", given, fields, served, budget); };
  if (prompt == nullptr) return {one("")};
  if (prompt->is_string() || prompt->front().is_number()) return {one(*prompt)};
  std::vector<Prompt> prompts;
  for (const Json& each : *prompt) prompts.push_back(one(each));
  return prompts;
}

void need_chat_template(const ServedModel& served) {
  if (served.chat_template) return;
  throw ApiError(400,
                 fmt::format("{} has no chat template, like most base models: use /v1/completions, or start the server "
                             "with --chat-template",
                             served.name),
                 "messages", "no_chat_template");
}

ChatPrompt chat_prompt(const Json* messages, const std::string& tools, const std::string& variables,
                       const ServedModel& served, const core::WorkBudget& budget) {
  ChatPrompt made;
  data::ChatWithTools chat{.messages = messages_of(messages), .options = {}};
  const bool has_calls = std::ranges::any_of(
      chat.messages, [](const data::ChatMessage& m) { return m.role == data::ChatRole::Tool || !m.calls.empty(); });
  if (!tools.empty() || has_calls) {
    const char* field = tools.empty() ? "messages" : "tools";
    made.writing = made_for(field, field, budget, [&] { return served.forms->calls(budget); });
  }
  return made_for("messages", "messages", budget, [&] {
    if (made.writing != nullptr) chat = data::with_tools(chat.messages, tools, made.writing->format);
    chat.options.budget = budget;
    chat.options.variables = variables;
    const auto rendered = data::render_chat(served.tokenizer, *served.chat_template, chat.messages, chat.options);
    for (const data::ChatPiece& piece : rendered) budget.spend(piece.text.size());
    made.thinking = data::thinking_of(served.tokenizer, *served.chat_template, rendered);
    made.prompt = {.tokens = data::encode_rendered(served.tokenizer, rendered), .text = ""};
    return made;
  });
}

std::vector<int32_t> parse_tokenize(const Json& body, const ServedModel& served, const core::WorkBudget& budget) {
  const Fields fields(body, schema("TokenizeRequest"));
  static_cast<void>(take_model(fields, served));
  const Json* messages = fields.find("messages");
  const Json* prompt = fields.find("prompt");
  if ((messages == nullptr) == (prompt == nullptr)) refuse("prompt", "or 'messages' is required, and not both");
  if (messages != nullptr) {
    need_chat_template(served);
    for (const char* field : {"parse_special", "add_special_tokens"}) {
      if (fields.find(field) != nullptr)
        refuse(field, "is only supported with 'prompt'; for 'messages', the chat template decides");
    }
    return chat_prompt(messages, "", "", served, budget).prompt.tokens;
  }
  if (!prompt->is_string()) refuse_type("prompt", "a string");
  const data::PromptOptions options = prompt_options(fields);
  Prompt made = encoded("prompt", *prompt, options, served, budget);
  return made.tokens.empty() && options.add_special ? served.tokenizer.default_prompt() : std::move(made.tokens);
}

std::vector<int32_t> parse_detokenize(const Json& body, const ServedModel& served) {
  const Fields fields(body, schema("DetokenizeRequest"));
  static_cast<void>(take_model(fields, served));
  const Json* tokens = fields.find("tokens");
  if (tokens == nullptr || !tokens->is_array()) refuse_type("tokens", "a list of token IDs");
  Prompt prompt = prompt_of_ids(*tokens, "tokens", served);
  check_text_of("tokens", std::span(&prompt, 1), served);
  return std::move(prompt.tokens);
}

}  // namespace folio::infer::server
