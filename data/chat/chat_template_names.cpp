// Which template a Jinja program stands for. A program is taken for a template only where its marks and the way it
// joins them are that template's, and it has no other marks: chats that look alike to people are other texts to a
// model.
#include <algorithm>
#include <optional>
#include <set>

#include "core/error.h"
#include "data/chat/chat_template.h"

namespace folio::data {
namespace {

using Marks = std::set<std::string, std::less<>>;

const std::string kPreamble = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

// What looks like a mark: "<|im_end|>", "<<SYS>>", "</think>", "[INST]".
Marks marks_of(std::string_view jinja) {
  Marks marks;
  for (size_t at = 0; at < jinja.size(); ++at) {
    if (jinja[at] == '<') {
      size_t end = jinja.find_first_of("> \t\n'\"{}", at);
      if (end == std::string_view::npos || jinja[end] != '>' || end == at + 1) continue;
      if (jinja.substr(at).starts_with("<<") && jinja.substr(end).starts_with(">>")) ++end;
      marks.emplace(jinja.substr(at, end + 1 - at));
      at = end;
    } else if (jinja[at] == '[') {
      const size_t end = jinja.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_/", at + 1);
      if (end == std::string_view::npos || jinja[end] != ']' || end == at + 1) continue;
      marks.emplace(jinja.substr(at, end + 1 - at));
    }
  }
  return marks;
}

// Whether Jinja leaves a line end of the program out: beside a "-" in a brace, and right behind a block (trim_blocks).
bool left_out(std::string_view jinja, size_t line_end) {
  const size_t after = std::min(jinja.find_first_not_of(" \t\r\n", line_end), jinja.size());
  if (after + 2 < jinja.size() && jinja[after] == '{' && jinja[after + 2] == '-') return true;
  const size_t before = jinja.find_last_not_of(" \t\r\n", line_end);
  if (before == std::string_view::npos || before < 2) return false;
  const std::string_view end = jinja.substr(before - 1, 2);
  if (end != "%}" && end != "}}" && end != "#}") return false;
  return jinja[before - 2] == '-' || (end != "}}" && before + 1 == line_end);
}

// The program without what joins its literals: 'a\n' + b, "a\n" ~ b, and a{{ b }} with a real line end, look the same.
std::string joined(std::string_view jinja) {
  std::string text;
  for (size_t at = 0; at < jinja.size(); ++at) {
    const char c = jinja[at];
    if (c == '\n' && !left_out(jinja, at)) text += "\\n";
    if (std::string_view(" \t\r\n'\"+~").find(c) == std::string_view::npos) text += c;
  }
  for (const std::string_view brace : {"{{-", "-}}", "{{", "}}"}) {
    for (size_t at = 0; (at = text.find(brace, at)) != std::string::npos;) text.erase(at, brace.size());
  }
  for (size_t at = 0; (at = text.find("message.content", at)) != std::string::npos;) {
    text.replace(at, std::string_view("message.content").size(), "message[content]");
  }
  return text;
}

// What stands between `open` and `close` within one literal or one stretch of plain text, unescaped; the first such.
std::string literal_between(std::string_view jinja, std::string_view open, std::string_view close) {
  for (size_t at = 0; (at = jinja.find(open, at)) != std::string_view::npos; at += open.size()) {
    const char quote = at > 0 && (jinja[at - 1] == '"' || jinja[at - 1] == '\'') ? jinja[at - 1] : '{';
    std::string text;
    for (size_t i = at + open.size(); i < jinja.size() && jinja[i] != quote; ++i) {
      if (jinja.substr(i).starts_with(close)) return text;
      const bool escaped = jinja[i] == '\\' && i + 1 < jinja.size();
      const char c = jinja[escaped ? ++i : i];
      text += escaped && c == 'n' ? '\n' : escaped && c == 't' ? '\t' : c;
    }
  }
  return "";
}

// A program, in the two forms in which it is looked at.
class Program {
 public:
  explicit Program(std::string_view jinja) : joined_(joined(jinja)), marks_(marks_of(jinja)) {
    for (const char c : jinja) (c == '\n' ? jinja_ += "\\n" : jinja_ += c);
  }

  [[nodiscard]] bool has(std::string_view text) const { return jinja_.find(text) != std::string::npos; }
  [[nodiscard]] bool joins(std::string_view text) const { return joined_.find(text) != std::string::npos; }
  [[nodiscard]] bool strips() const { return has("strip(") || joins("|trim"); }
  /// Whether it has all of `needed`, and no marks beside those and `others`.
  [[nodiscard]] bool has_marks(const Marks& needed, const Marks& others = {}) const {
    return std::includes(marks_.begin(), marks_.end(), needed.begin(), needed.end()) &&
           std::all_of(marks_.begin(), marks_.end(),
                       [&](const std::string& mark) { return needed.contains(mark) || others.contains(mark); });
  }
  [[nodiscard]] std::string default_system(const std::string& open, std::string_view close) const {
    return literal_between(jinja_, open, close);
  }

 private:
  std::string jinja_;  ///< with "\n" written out at the ends of its lines
  std::string joined_;
  Marks marks_;
};

using Recognized = std::optional<ChatTemplate>;

Recognized chatml(const Program& p) {
  const Marks tools{"<tool_call>",     "</tool_call>",     "<tools>",         "</tools>",
                    "<tool_response>", "</tool_response>", "<function-name>", "<args-json-object>"};
  const bool is_it = p.has_marks({"<|im_start|>", "<|im_end|>"}, tools) && p.joins("<|im_end|>\\n") &&
                     !p.joins("<|im_end|>\\n\\n") && p.joins("<|im_start|>assistant\\n") &&
                     !p.joins("<|im_start|>assistant\\n\\n") && !p.strips() && !p.has("eos_token") &&
                     !p.has("split(") && !p.has("replace(");
  if (!is_it) return {};
  ChatTemplate chat{.family = ChatFamily::ChatMl,
                    .writes_bos = p.has("bos_token"),
                    .default_system = p.default_system("<|im_start|>system\\n", "<|im_end|>")};
  if (chat.default_system.empty() && p.has("You are")) return {};  // it is said in another way
  return chat;
}

Recognized llama3(const Program& p) {
  const std::string header = "<|start_header_id|>system<|end_header_id|>\\n\\n";
  if (!p.has_marks({"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
                   {"<|python_tag|>", "<|eom_id|>", "<|begin_of_text|>"}) ||
      !p.joins("<|start_header_id|>assistant<|end_header_id|>\\n\\n")) {
    return {};
  }
  ChatTemplate chat{.family = ChatFamily::Llama3,
                    .writes_bos = p.has("bos_token") || p.has("<|begin_of_text|>"),
                    .trims = p.strips(),
                    .default_system = p.default_system(header, "<|eot_id|>")};
  if (p.has("Cutting Knowledge Date: December 2023") && p.has("26 Jul 2024")) {
    chat.preamble = kPreamble;
  } else if (chat.default_system.empty() && (p.has(header) || p.has("You are"))) {
    return {};  // it tells the model something, and not in one literal
  }
  return chat;
}

Recognized llama2(const Program& p) {
  const bool is_it = p.has_marks({"[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"}) &&
                     p.joins("bos_token[INST]content.strip()[/INST]") && p.joins("content.strip()eos_token") &&
                     p.joins("<<SYS>>\\nsystem_message\\n<</SYS>>\\n\\nmessage[content]") && !p.joins("true==true");
  if (!is_it) return {};
  return chat_template_named("llama2");
}

Recognized zephyr(const Program& p) {
  const bool is_it = p.has_marks({"<|system|>", "<|user|>", "<|assistant|>"}) &&
                     p.joins("<|system|>\\nmessage[content]eos_token\\n") &&
                     p.joins("<|user|>\\nmessage[content]eos_token\\n") &&
                     p.joins("<|assistant|>\\nmessage[content]eos_token\\n") && !p.strips();
  if (!is_it) return {};
  return ChatTemplate{.family = ChatFamily::Zephyr, .writes_bos = p.has("bos_token")};
}

Recognized gemma(const Program& p) {
  const bool is_it = p.has_marks({"<start_of_turn>", "<end_of_turn>"}, {"<start_of_image>"}) &&
                     p.joins("<start_of_turn>role\\n") && p.joins("<end_of_turn>\\n") &&
                     p.joins("<start_of_turn>model\\n") && p.joins("=model") && p.joins("message[content]|trim") &&
                     p.has("bos_token");
  if (!is_it) return {};
  const bool takes_system = p.joins("first_user_prefix=messages[0][content]\\n\\n");
  if (!takes_system && !p.has("System role not supported")) return {};
  return ChatTemplate{.family = ChatFamily::Gemma, .writes_bos = true, .trims = true, .takes_system = takes_system};
}

std::string all_names() {
  std::string names;
  for (const std::string& name : chat_template_names()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

}  // namespace

const std::vector<std::string>& chat_template_names() {
  static const std::vector<std::string> names{"chatml", "gemma", "llama2", "llama3", "zephyr"};
  return names;
}

ChatTemplate chat_template_named(std::string_view name) {
  if (name == "chatml") return {.family = ChatFamily::ChatMl};
  if (name == "gemma") return {.family = ChatFamily::Gemma, .writes_bos = true, .trims = true};
  if (name == "llama2") return {.family = ChatFamily::Llama2, .writes_bos = true, .trims = true};
  if (name == "llama3") return {.family = ChatFamily::Llama3, .writes_bos = true, .trims = true};
  if (name == "zephyr") return {.family = ChatFamily::Zephyr};
  throw core::UsageError(fmt::format("there is no chat template {}; there are {}", core::printable(name), all_names()));
}

ChatTemplate recognize_chat_template(std::string_view jinja, const std::string& where) {
  core::require(!jinja.empty(), "{}: there is no chat template in it; name one with --chat-template: {}", where,
                all_names());
  constexpr size_t kLongest = size_t{32} << 10U;  // those of the families here have some 4 KB
  const Program program(jinja.substr(0, jinja.size() > kLongest ? 0 : jinja.size()));
  for (const auto& recognize : {chatml, gemma, llama2, llama3, zephyr}) {
    if (const Recognized found = recognize(program)) return *found;
  }
  core::fail("{}: its chat template is none that is known here; name the nearest with --chat-template: {}", where,
             all_names());
}

}  // namespace folio::data
