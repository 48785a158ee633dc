#include "data/chat/chat_template.h"

#include <array>

#include "core/error.h"
#include "core/json.h"
#include "jinja/interpreter.h"

namespace folio::data {
namespace {

std::string all_names() {
  std::string names;
  for (const std::string& name : chat_template_names()) names += name + ", ";
  return names + "or a file";
}

// Calls `run`, which parses or renders a template. Adds `where` and the names of the built-in templates to its errors.
template <typename Run>
auto with_remedy(const std::string& where, Run&& run) {
  try {
    return run();
  } catch (const core::Error& error) {
    if (const auto* stopped = dynamic_cast<const core::WorkStopped*>(&error); stopped && stopped->is_complete()) throw;
    core::fail("{}: chat template, {}; choose another with --chat-template: {}", where,
               core::printable(error.what(), 250), all_names());
  }
}

std::string text_of_special(const Tokenizer& tokenizer, int32_t id) {
  const SpecialToken* token = tokenizer.special_tokens().token_of(id);
  return token == nullptr ? "" : token->text;
}

// Parses JSON and keeps the order of keys. Spends kStepsPerByte of the session's work budget per byte: inserting a key
// compares it with all earlier keys.
core::OrderedJson read_in_order(jinja::Session& session, const std::string& text, const char* where) {
  constexpr size_t kStepsPerByte = 4;
  session.spend(kStepsPerByte * text.size());
  return core::parse_ordered_json(text, where);
}

// Converts JSON to a value whose strings and keys are marked as message content, not template text.
jinja::Value value_of(jinja::Session& session, const core::OrderedJson& json) {
  return jinja::from_json(session, json, jinja::kFromMessage);
}

// Converts a message to a dictionary like those that are passed to transformers' apply_chat_template.
jinja::Value value_of(jinja::Session& session, const ChatMessage& message, bool arguments_as_text) {
  const auto name = [&](std::string_view utf8) { return session.text(jinja::from_utf8(utf8)); };
  const auto content = [&](std::string_view utf8) { return session.text(jinja::from_utf8(utf8, jinja::kFromMessage)); };
  std::vector<std::pair<jinja::Value, jinja::Value>> members{{name("role"), name(chat_role_name(message.role))},
                                                             {name("content"), content(message.content)}};
  std::vector<jinja::Value> calls;
  for (const ToolCall& call : message.calls) {
    const jinja::Value arguments =
        arguments_as_text ? content(call.arguments)
                          : value_of(session, read_in_order(session, call.arguments, "the arguments of a call"));
    const jinja::Value function = session.dict({{name("name"), content(call.name)}, {name("arguments"), arguments}});
    calls.push_back(
        session.dict({{name("id"), content(call.id)}, {name("type"), name("function")}, {name("function"), function}}));
  }
  if (!calls.empty()) members.emplace_back(name("tool_calls"), session.list(std::move(calls)));
  if (!message.reasoning.empty()) {  // templates read one of these two keys; as vLLM does, set both
    members.emplace_back(name("reasoning"), content(message.reasoning));
    members.emplace_back(name("reasoning_content"), content(message.reasoning));
  }
  if (message.role == ChatRole::Tool) {
    members.emplace_back(name("tool_call_id"), content(message.call_id));
    if (!message.name.empty()) members.emplace_back(name("name"), content(message.name));
  }
  return session.dict(std::move(members));
}

// Returns the text of the special token that begins a prompt, usually BOS, even if the tokenizer does not prepend it.
// Returns "" if there is none.
std::string bos_text(const Tokenizer& tokenizer) {
  const std::vector<int32_t> beginning = tokenizer.prefix_tokens();
  return text_of_special(tokenizer, beginning.empty() ? tokenizer.bos() : beginning[0]);
}

}  // namespace

std::string_view chat_role_name(ChatRole role) {
  constexpr std::array<std::string_view, 4> kNames{"system", "user", "assistant", "tool"};
  return kNames.at(static_cast<size_t>(role));
}

ChatTemplate::ChatTemplate(std::string_view jinja, std::string where, std::string_view for_tools)
    : source_(jinja), where_(std::move(where)) {
  core::require(
      !jinja.empty(),
      "{} has no chat template, like most base models; use generate, or choose a template with --chat-template: {}",
      where_, all_names());
  const auto parsed = [&](std::string_view text) {
    return with_remedy(where_, [&] { return std::make_shared<const jinja::Block>(jinja::parse(text)); });
  };
  program_ = parsed(jinja);
  if (!for_tools.empty()) for_tools_ = parsed(for_tools);
}

std::vector<ChatPiece> ChatTemplate::render(std::span<const ChatMessage> messages, std::string_view bos,
                                            std::string_view eos, const RenderOptions& options,
                                            std::vector<ChatSpan>* generated) const {
  core::require(!messages.empty(), "a chat needs at least one message");
  jinja::Session session(options.budget.value_or(core::WorkBudget()));
  const auto text = [&](std::string_view utf8) { return session.text(jinja::from_utf8(utf8)); };
  std::vector<jinja::Value> list;
  for (const ChatMessage& m : messages) list.push_back(value_of(session, m, options.arguments_as_text));
  const jinja::Value tools = options.tools.empty()
                                 ? jinja::Value{jinja::None{}}
                                 : value_of(session, read_in_order(session, options.tools, "the tools"));
  jinja::Variables variables{{"messages", session.list(std::move(list))},
                             {"add_generation_prompt", {options.add_generation_prompt}},
                             {"bos_token", text(bos)},
                             {"eos_token", text(eos)},
                             {"tools", tools},
                             {"documents", {jinja::None{}}}};
  const core::OrderedJson more = options.variables.empty()
                                     ? core::OrderedJson::object()
                                     : read_in_order(session, options.variables, "the template's variables");
  std::erase_if(variables, [&](const auto& variable) { return more.contains(variable.first); });
  for (const auto& [key, value] : more.items()) variables.emplace_back(key, value_of(session, value));
  std::vector<jinja::Generated> answers;
  const jinja::Text rendered = with_remedy(where_, [&] {
    return jinja::render(program(!options.tools.empty()), session, std::move(variables),
                         generated == nullptr ? nullptr : &answers);
  });
  if (generated != nullptr) {
    std::vector<size_t> bytes_before{0};  // byte offset of each character of `rendered`, and of its end
    for (const char32_t& c : rendered) {
      bytes_before.push_back(bytes_before.back() + jinja::to_utf8(jinja::TextView(&c, 1)).size());
    }
    generated->clear();
    for (const auto& [begin, end] : answers)
      generated->push_back({.begin = bytes_before[begin], .end = bytes_before[end]});
  }
  std::vector<ChatPiece> pieces;
  for (size_t from = 0; from < rendered.size();) {
    size_t to = from;
    while (to < rendered.size() && (rendered[to] & jinja::kFromMessage) == (rendered[from] & jinja::kFromMessage)) ++to;
    pieces.push_back({.text = jinja::to_utf8(jinja::TextView(rendered).substr(from, to - from)),
                      .is_template = (rendered[from] & jinja::kFromMessage) == 0});
    from = to;
  }
  return pieces;
}

ChatTemplate chat_template_of(const Tokenizer& tokenizer, const std::string& where) {
  const ChatTemplates& templates = tokenizer.chat_templates();
  std::string names;
  for (const auto& [name, text] : templates) names += (names.empty() ? "" : ", ") + core::printable(name);
  core::require(templates.empty() || !tokenizer.chat_template().empty(),
                "{}: no chat template is named \"{}\"; choose one with --chat-template: {}", where, kDefaultTemplate,
                names);
  const auto for_tools = templates.find(kToolTemplate);
  return {tokenizer.chat_template(), where, for_tools == templates.end() ? "" : for_tools->second};
}

std::vector<ChatPiece> render_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                   std::span<const ChatMessage> messages, const RenderOptions& options,
                                   std::vector<ChatSpan>* generated) {
  return chat.render(messages, bos_text(tokenizer), text_of_special(tokenizer, tokenizer.end_of_text()), options,
                     generated);
}

std::vector<int32_t> encode_rendered(const Tokenizer& tokenizer, std::span<const ChatPiece> rendered) {
  std::vector<PromptPiece> pieces;
  for (const ChatPiece& piece : rendered) pieces.push_back({.text = piece.text, .parse_special = piece.is_template});
  return tokenizer.with_prefix(tokenizer.encode_pieces(pieces));
}

std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                 std::span<const ChatMessage> messages, const RenderOptions& options) {
  return encode_rendered(tokenizer, render_chat(tokenizer, chat, messages, options));
}

Thinking thinking_of(const Tokenizer& tokenizer, const ChatTemplate& chat, std::span<const ChatPiece> prompt) {
  const SpecialTokens& special = tokenizer.special_tokens();
  const bool has_tokens = special.id_of(kThinkBegin) >= 0 && special.id_of(kThinkEnd) >= 0;
  if (!has_tokens && chat.source().find(kThinkEnd) == std::string::npos) return Thinking::None;
  if (prompt.empty() || !prompt.back().is_template) return Thinking::Possible;
  const size_t begin = prompt.back().text.rfind(kThinkBegin);
  const bool is_inside = begin != std::string::npos && prompt.back().text.find(kThinkEnd, begin) == std::string::npos;
  return is_inside ? Thinking::Begun : Thinking::Possible;
}

std::string end_of_turn(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  const std::vector<ChatMessage> messages{{.role = ChatRole::User, .content = "question"},
                                          {.role = ChatRole::Assistant, .content = "answer"}};
  const std::vector<ChatPiece> pieces = render_chat(tokenizer, chat, messages, {.add_generation_prompt = false});
  if (pieces.empty() || !pieces.back().is_template || pieces.size() < 2) return "";
  if (pieces[pieces.size() - 2].text != messages[1].content) return "";
  const std::string& after = pieces.back().text;
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t begin = after.find_first_not_of(kSpaces);
  if (begin == std::string::npos) return "";
  const auto token_at = [&](size_t at) {
    return tokenizer.special_tokens().begin_of(std::string_view(after).substr(at));
  };
  if (const SpecialToken* token = token_at(begin)) return token->text;
  size_t end = begin;
  while (end < after.size() && kSpaces.find(after[end]) == std::string_view::npos && token_at(end) == nullptr) ++end;
  return after.substr(begin, end - begin);
}

}  // namespace folio::data
