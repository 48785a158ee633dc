#include "data/chat/chat_template.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/utf8.h"

namespace folio::data {
namespace {

// What str.isspace says in Python: the whitespace of Unicode, and the four separators of ASCII.
bool is_python_space(uint32_t c) {
  constexpr std::array<uint32_t, 9> kOthers{0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F) || (c >= 0x2000 && c <= 0x200A) ||
         std::find(kOthers.begin(), kOthers.end(), c) != kOthers.end();
}

std::string_view strip(std::string_view text) {
  size_t begin = text.size();
  size_t end = text.size();
  for (size_t at = 0; at < text.size();) {
    const core::Utf8Char c = core::decode_utf8(text, at);
    const size_t next = at + c.length;
    if (!c.valid || !is_python_space(c.code_point)) {
      begin = std::min(begin, at);
      end = next;
    }
    at = next;
  }
  return text.substr(begin, end - begin);
}

std::string_view strip_end(std::string_view text) {
  const std::string_view kept = strip(text);
  return kept.empty() ? kept : std::string_view(text.data(), kept.data() + kept.size());
}

// Pieces one after the other; neighbours of one kind are joined, so that a mark is never cut.
class Rendering {
 public:
  Rendering& mark(std::string_view text) { return add(text, true); }
  Rendering& say(std::string_view text) { return add(text, false); }
  std::vector<ChatPiece> take() { return std::move(pieces_); }

 private:
  Rendering& add(std::string_view text, bool is_mark) {
    if (text.empty()) return *this;
    if (pieces_.empty() || pieces_.back().is_mark != is_mark) pieces_.push_back({.text = {}, .is_mark = is_mark});
    pieces_.back().text += text;
    return *this;
  }
  std::vector<ChatPiece> pieces_;
};

struct Conversation {
  const ChatMessage* system = nullptr;   ///< the first, where it is one
  std::span<const ChatMessage> turns{};  ///< the others
};

Conversation split_system(std::span<const ChatMessage> messages) {
  core::require(!messages.empty(), "a chat needs a message");
  const bool first = messages[0].role == ChatRole::System;
  const Conversation c{.system = first ? &messages[0] : nullptr, .turns = messages.subspan(first ? 1 : 0)};
  for (const ChatMessage& m : c.turns) {
    core::require(m.role != ChatRole::System, "a chat's system message has to be its first");
  }
  return c;
}

void require_alternating(std::span<const ChatMessage> turns) {
  for (size_t i = 0; i < turns.size(); ++i) {
    core::require((turns[i].role == ChatRole::User) == (i % 2 == 0),
                  "with this chat template user and assistant take turns, the user first");
  }
}

class Renderer {
 public:
  Renderer(const ChatTemplate& chat, std::string_view bos, std::string_view eos) : chat_(chat), bos_(bos), eos_(eos) {
    if (chat.writes_bos && chat.family != ChatFamily::Llama2) out_.mark(bos);  // Llama 2: at each user's turn
  }

  std::vector<ChatPiece> chatml(const Conversation& c) {
    const auto turn = [&](std::string_view role, std::string_view text, bool is_mark = false) {
      out_.mark("<|im_start|>").mark(role).mark("\n");
      (is_mark ? out_.mark(text) : out_.say(said(text))).mark("<|im_end|>\n");
    };
    if (c.system != nullptr) turn("system", c.system->content);
    if (c.system == nullptr && !chat_.default_system.empty()) turn("system", chat_.default_system, true);
    for (const ChatMessage& m : c.turns) turn(chat_role_name(m.role), m.content);
    return out_.mark("<|im_start|>assistant\n").take();
  }

  std::vector<ChatPiece> llama3(const Conversation& c) {
    const auto header = [&](std::string_view role) -> Rendering& {
      return out_.mark("<|start_header_id|>").mark(role).mark("<|end_header_id|>\n\n");
    };
    if (c.system != nullptr || !chat_.preamble.empty() || !chat_.default_system.empty()) {
      header("system").mark(chat_.preamble);
      (c.system != nullptr ? out_.say(said(c.system->content)) : out_.mark(chat_.default_system)).mark("<|eot_id|>");
    }
    for (const ChatMessage& m : c.turns) header(chat_role_name(m.role)).say(said(m.content)).mark("<|eot_id|>");
    return header("assistant").take();
  }

  std::vector<ChatPiece> zephyr(const Conversation& c) {
    const auto turn = [&](ChatRole role, std::string_view text) {
      out_.mark("<|").mark(chat_role_name(role)).mark("|>\n").say(said(text)).mark(eos_).mark("\n");
    };
    if (c.system != nullptr) turn(ChatRole::System, c.system->content);
    for (const ChatMessage& m : c.turns) turn(m.role, m.content);
    return out_.mark("<|assistant|>\n").take();
  }

  std::vector<ChatPiece> gemma(const Conversation& c) {
    core::require(c.system == nullptr || chat_.takes_system, "this model's chat template has no system message");
    require_alternating(c.turns);
    for (size_t i = 0; i < c.turns.size(); ++i) {
      const bool is_user = c.turns[i].role == ChatRole::User;
      out_.mark("<start_of_turn>").mark(is_user ? "user\n" : "model\n");
      if (i == 0 && c.system != nullptr) out_.say(c.system->content).mark("\n\n");
      out_.say(said(c.turns[i].content)).mark("<end_of_turn>\n");
    }
    return out_.mark("<start_of_turn>model\n").take();
  }

  // The system message is part of the first user's message, and the two are trimmed as one.
  std::vector<ChatPiece> llama2(const Conversation& c) {
    require_alternating(c.turns);
    for (size_t i = 0; i < c.turns.size(); ++i) {
      const std::string& text = c.turns[i].content;
      if (c.turns[i].role != ChatRole::User) {
        out_.mark(" ").say(said(text)).mark(" ").mark(eos_);
        continue;
      }
      out_.mark(bos_).mark("[INST] ");
      if (i == 0 && c.system != nullptr) {
        const std::string_view kept = strip_end(text);
        out_.mark("<<SYS>>\n").say(c.system->content).mark(kept.empty() ? "\n<</SYS>>" : "\n<</SYS>>\n\n").say(kept);
      } else {
        out_.say(said(text));
      }
      out_.mark(" [/INST]");
    }
    return out_.take();
  }

 private:
  [[nodiscard]] std::string_view said(std::string_view text) const { return chat_.trims ? strip(text) : text; }

  const ChatTemplate& chat_;
  std::string_view bos_;
  std::string_view eos_;
  Rendering out_;
};

std::string text_of_special(const Tokenizer& tokenizer, int32_t id) {
  for (const SpecialToken& token : tokenizer.special_tokens().tokens()) {
    if (token.id == id) return token.text;
  }
  return "";
}

// The text of BOS, also where the file doesn't put one in front of other texts.
std::string bos_text(const Tokenizer& tokenizer) {
  const std::vector<int32_t> beginning = tokenizer.prefix_tokens();
  const std::vector<int32_t> first = beginning.empty() ? tokenizer.default_prompt() : beginning;
  return first.empty() ? "" : text_of_special(tokenizer, first[0]);
}

}  // namespace

std::string_view chat_role_name(ChatRole role) {
  switch (role) {
    case ChatRole::System:
      return "system";
    case ChatRole::User:
      return "user";
    default:
      return "assistant";
  }
}

std::vector<ChatPiece> render_chat(const ChatTemplate& chat, std::span<const ChatMessage> messages,
                                   std::string_view bos, std::string_view eos) {
  const Conversation conversation = split_system(messages);
  Renderer renderer(chat, bos, eos);
  switch (chat.family) {
    case ChatFamily::ChatMl:
      return renderer.chatml(conversation);
    case ChatFamily::Gemma:
      return renderer.gemma(conversation);
    case ChatFamily::Llama2:
      return renderer.llama2(conversation);
    case ChatFamily::Llama3:
      return renderer.llama3(conversation);
    default:
      return renderer.zephyr(conversation);
  }
}

std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                 std::span<const ChatMessage> messages) {
  const std::vector<ChatPiece> rendered =
      render_chat(chat, messages, bos_text(tokenizer), text_of_special(tokenizer, tokenizer.end_of_text()));
  std::vector<TextPiece> pieces;
  for (const ChatPiece& piece : rendered) pieces.push_back({.text = piece.text, .parse_special = piece.is_mark});
  std::vector<int32_t> tokens = chat.writes_bos ? std::vector<int32_t>() : tokenizer.prefix_tokens();
  const std::vector<int32_t> rest = tokenizer.encode_pieces(pieces);
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  return tokens;
}

std::string_view end_of_turn(ChatFamily family) {
  switch (family) {
    case ChatFamily::ChatMl:
      return "<|im_end|>";
    case ChatFamily::Gemma:
      return "<end_of_turn>";
    case ChatFamily::Llama3:
      return "<|eot_id|>";
    default:
      return "";
  }
}

}  // namespace folio::data
