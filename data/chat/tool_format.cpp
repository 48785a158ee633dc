#include "data/chat/tool_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "core/error.h"

namespace folio::data {
namespace {

using Kind = CallPiece::Kind;

// Placeholders to search for in a rendered chat. Some templates require IDs of nine letters and digits.
constexpr std::array<const char*, 2> kNames{"made_up_function_q", "made_up_function_z"};
constexpr std::array<const char*, 2> kIds{"qT7bX2mK9", "zR4cW8nJ5"};
constexpr const char* kQuestion = "made-up question";
constexpr const char* kAnswer = "made-up answer";
constexpr const char* kArguments = R"({"made_up_key": "made-up value"})";
constexpr const char* kDenseArguments = R"({"made_up_key":"made-up value"})";
constexpr const char* kPrinted = "{'made_up_key': 'made-up value'}";  // kArguments as Python prints a dictionary

std::string made_up_tools() {
  std::string list;
  for (const char* name : kNames) {
    list += fmt::format(
        R"({}{{"type": "function", "function": {{"name": "{}", "description": "made up", "parameters": {{"type": "object", )"
        R"("properties": {{"made_up_key": {{"type": "string", "description": "made up"}}}}, "required": ["made_up_key"]}}}}}})",
        list.empty() ? "[" : ", ", name);
  }
  return list + "]";
}

std::vector<ChatMessage> conversation(size_t n_calls, std::string content = "") {
  ChatMessage answer{.role = ChatRole::Assistant, .content = std::move(content)};
  for (size_t i = 0; i < n_calls; ++i) {
    answer.calls.push_back({.id = kIds[i], .name = kNames[i], .arguments = kArguments});
  }
  std::vector<ChatMessage> messages{{.role = ChatRole::User, .content = kQuestion}};
  if (n_calls > 0 || !answer.content.empty()) messages.push_back(std::move(answer));
  return messages;
}

std::string words_of(const std::string& tools) {
  return "You can call these functions. Each has a JSON schema of its arguments:\n" + tools +
         "\n\nTo call one, write\n<tool_call>\n{\"name\": \"NAME\", \"arguments\": {...}}\n</tool_call>\n"
         "What it returns comes in <tool_response>. If none is of use, answer in words.";
}

std::string with_calls(const ChatMessage& message) {
  std::string text = message.content;
  for (const ToolCall& call : message.calls) {
    text += fmt::format("{}<tool_call>\n{{\"name\": \"{}\", \"arguments\": {}}}\n</tool_call>",
                        text.empty() ? "" : "\n", call.name, call.arguments);
  }
  return text;
}

std::vector<ChatMessage> in_words(std::span<const ChatMessage> messages, const std::string& tools, bool has_system) {
  std::vector<ChatMessage> plain;
  bool is_answered = false;  // the last message in `plain` has tool results; append further results to it
  for (const ChatMessage& message : messages) {
    if (message.role != ChatRole::Tool) {
      plain.push_back({.role = message.role, .content = with_calls(message), .reasoning = message.reasoning});
    } else {
      const std::string answer = "<tool_response>\n" + message.content + "\n</tool_response>";
      if (!is_answered) plain.push_back({.role = ChatRole::User, .content = answer});
      if (is_answered) plain.back().content += "\n" + answer;
    }
    is_answered = message.role == ChatRole::Tool;
  }
  if (tools.empty()) return plain;
  const ChatRole place = has_system ? ChatRole::System : ChatRole::User;
  const auto found = std::ranges::find(plain, place, &ChatMessage::role);
  if (found == plain.end()) {
    plain.insert(plain.begin(), {.role = place, .content = words_of(tools)});
  } else {
    found->content = has_system ? found->content + "\n\n" + words_of(tools) : words_of(tools) + "\n\n" + found->content;
  }
  return plain;
}

// Finds the format in which a template writes calls, by rendering chats with made-up calls.
class Recognizer {
 public:
  Recognizer(const Tokenizer& tokenizer, const ChatTemplate& chat, const core::WorkBudget& budget)
      : tokenizer_(tokenizer), chat_(chat), budget_(budget) {}

  [[nodiscard]] ToolFormat recognize() {
    if (rendered(conversation(0), true).value_or("").find(kNames[0]) != std::string::npos) {
      if (found()) return format_;
      // A template that concatenates arguments, or prints objects in Python's notation, needs arguments as a string.
      const auto call = rendered(conversation(1), false);
      format_ = {.arguments_as_text = true};
      if ((!call || call->find(kPrinted) != std::string::npos) && found()) return format_;
    }
    format_ = {.in_words = true};
    format_.has_system = rendered(conversation(0), true).has_value();
    core::require(
        found(),
        "the chat template does not output an assistant's content, so its tool-call format cannot be determined");
    return format_;
  }

 private:
  // Renders messages, with a generation prompt if `prompt`. Returns nullopt if the template rejects them.
  [[nodiscard]] std::optional<std::string> rendered(const std::vector<ChatMessage>& messages, bool prompt) const try {
    RenderOptions options{
        .add_generation_prompt = prompt, .arguments_as_text = format_.arguments_as_text, .budget = budget_};
    std::string text;
    if (!format_.in_words) options.tools = made_up_tools();
    const auto pieces =
        render_chat(tokenizer_, chat_,
                    format_.in_words ? in_words(messages, made_up_tools(), format_.has_system) : messages, options);
    for (const ChatPiece& piece : pieces) text += piece.text;
    return text;
  } catch (const core::WorkStopped&) {
    throw;
  } catch (const core::Error&) {
    return std::nullopt;
  }

  // A call found in a rendered text: bytes [begin, end), starting at the function's name, and the pieces of the call.
  struct Written {
    size_t begin, end;
    std::vector<CallPiece> pieces;
  };
  static std::optional<Written> written(const std::string& text, size_t from, size_t i) {
    const size_t name = text.find(kNames[i], from);
    if (name == std::string::npos) return std::nullopt;
    const std::string_view arguments = text.find(kArguments, name) != std::string::npos ? kArguments : kDenseArguments;
    const size_t values = text.find(arguments, name);
    if (values == std::string::npos) return std::nullopt;
    struct Slot {
      Kind kind;
      size_t at, length;
    };
    std::vector<Slot> slots{{Kind::Name, name, std::string_view(kNames[i]).size()},
                            {Kind::Arguments, values, arguments.size()}};
    const size_t id = text.find(kIds[i], name);
    if (id != std::string::npos) slots.push_back({Kind::Id, id, std::string_view(kIds[i]).size()});
    std::ranges::sort(slots, {}, &Slot::at);
    Written result{.begin = name, .end = name, .pieces = {}};
    for (const Slot& slot : slots) {
      if (slot.at < result.end) return std::nullopt;
      if (slot.at > result.end) {
        result.pieces.push_back({.kind = Kind::Text, .text = text.substr(result.end, slot.at - result.end)});
      }
      result.pieces.push_back({.kind = slot.kind});
      result.end = slot.at + slot.length;
    }
    return result;
  }

  [[nodiscard]] bool found() {
    const auto one = rendered(conversation(1), false);
    const auto prompt = rendered(conversation(0), true);
    if (!one || !prompt) return false;
    size_t begin = one->starts_with(*prompt) ? prompt->size() : std::string::npos;
    if (const auto answer = rendered(conversation(0, kAnswer), false)) {
      // Find the text that the template writes before every answer, such as empty reasoning.
      const size_t at = answer->find(kAnswer);
      if (at != std::string::npos && one->starts_with(answer->substr(0, at)) &&
          (begin == std::string::npos || at > begin)) {
        if (begin != std::string::npos) format_.before = one->substr(begin, at - begin);
        begin = at;
      }
    }
    if (begin == std::string::npos) return false;
    const auto call = written(*one, begin, 0);
    if (!call) return false;
    format_.opening = one->substr(begin, call->begin - begin);
    format_.call = call->pieces;
    format_.has_spaces = one->find(kArguments, begin) != std::string::npos;
    const std::string rest = one->substr(call->end);
    format_.closing = rest.substr(0, end_of_turn_in(rest));
    find_separator(*one, *call, rest);
    return find_trigger();
  }

  // Finds the text between two calls of an answer. If the template does not write two calls in the same
  // format as a single call, answers are assumed to have at most one call.
  void find_separator(const std::string& one, const Written& call, const std::string& rest) {
    const auto two = rendered(conversation(2), false);
    if (!two || !two->starts_with(one.substr(0, call.end))) return;
    const auto other = written(*two, call.end, 1);
    const auto same = [](const CallPiece& a, const CallPiece& b) { return a.kind == b.kind && a.text == b.text; };
    if (!other || !std::ranges::equal(call.pieces, other->pieces, same) || two->substr(other->end) != rest) return;
    format_.several = true;
    format_.separator = two->substr(call.end, other->begin - call.end);
  }

  // Returns the offset in `rest`, the text after a call, of the end of the turn: the text that ends a turn
  // (end_of_turn()), or else the first special token, or else the trailing white space.
  [[nodiscard]] size_t end_of_turn_in(const std::string& rest) const {
    const std::string mark = end_of_turn(tokenizer_, chat_);
    if (const size_t at = rest.find(mark); !mark.empty() && at != std::string::npos) return at;
    for (size_t at = 0; at < rest.size(); ++at) {
      if (tokenizer_.special_tokens().begin_of(std::string_view(rest).substr(at)) != nullptr) return at;
    }
    return rest.find_last_not_of(" \t\r\n") + 1;
  }

  [[nodiscard]] bool find_trigger() {
    std::string& opening = format_.opening;
    const size_t begin = opening.find_first_not_of(" \t\r\n");
    if (begin == std::string::npos) return false;
    format_.before += opening.substr(0, begin);
    opening.erase(0, begin);
    find_marks();
    if (const SpecialToken* mark = tokenizer_.special_tokens().begin_of(opening)) {
      format_.trigger = mark->text;
      return true;
    }
    const size_t bracket = opening.find_first_not_of("[{ \n");
    format_.only_at_start = bracket != 0 && bracket != std::string::npos && opening[bracket] == '"';
    format_.trigger = format_.only_at_start ? opening : opening.substr(0, opening.find_first_of(" \t\r\n{\""));
    return !format_.trigger.empty();
  }

  void find_marks() {
    const auto look = [&](std::string_view text) {
      for (size_t at = 0; at < text.size(); ++at) {
        if (const SpecialToken* mark = tokenizer_.special_tokens().begin_of(text.substr(at))) {
          if (std::ranges::find(format_.marks, mark->id) == format_.marks.end()) format_.marks.push_back(mark->id);
        }
      }
    };
    for (const CallPiece& piece : format_.call) look(piece.text);
    for (const std::string* text : {&format_.before, &format_.opening, &format_.separator, &format_.closing})
      look(*text);
    // In gpt-oss' format, a call may follow other messages, such as the analysis.
    if (format_.opening.starts_with("to=functions.")) look("<|end|><|start|>");
  }

  const Tokenizer& tokenizer_;
  const ChatTemplate& chat_;
  const core::WorkBudget& budget_;
  ToolFormat format_;
};

}  // namespace

ToolFormat tool_format(const Tokenizer& tokenizer, const ChatTemplate& chat, const core::WorkBudget& budget) {
  return Recognizer(tokenizer, chat, budget).recognize();
}

ChatWithTools with_tools(std::span<const ChatMessage> messages, const std::string& tools, const ToolFormat& format) {
  if (format.in_words) return {.messages = in_words(messages, tools, format.has_system), .options = {}};
  return {.messages = {messages.begin(), messages.end()},
          .options = {.tools = tools, .arguments_as_text = format.arguments_as_text}};
}

MarkedTokenizer::MarkedTokenizer(const Tokenizer& tokenizer, std::span<const int32_t> marks) : tokenizer_(tokenizer) {
  for (const SpecialToken& token : tokenizer.special_tokens().tokens()) {
    if (std::ranges::find(marks, token.id) != marks.end()) marks_.push_back(token);
  }
}

const std::string& MarkedTokenizer::token_bytes(int32_t id) const {
  const auto mark = std::ranges::find(marks_, id, &SpecialToken::id);
  return mark == marks_.end() ? tokenizer_.token_bytes(id) : mark->text;
}

bool MarkedTokenizer::ends_text(int32_t id) const {
  return tokenizer_.ends_text(id) && std::ranges::find(marks_, id, &SpecialToken::id) == marks_.end();
}

std::vector<int32_t> MarkedTokenizer::suppressed_tokens() const {
  std::vector<int32_t> ids = tokenizer_.suppressed_tokens();
  std::erase_if(ids, [&](int32_t id) { return std::ranges::find(marks_, id, &SpecialToken::id) != marks_.end(); });
  return ids;
}

}  // namespace folio::data
