#include "data/chat/conversations.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "data/chat/chat_messages.h"

namespace folio::data {
namespace {

// Returns the list "tools" of a conversation as JSON text, or "" if it is missing or empty. Datasets exported from
// Arrow tables store the list as a string.
std::string tools_of(const core::OrderedJson& object, const std::string& where) {
  const auto tools = object.find("tools");
  if (tools == object.end() || tools->is_null()) return "";
  const core::OrderedJson list =
      tools->is_string() ? core::parse_ordered_json(tools->get_ref<const std::string&>(), where) : *tools;
  core::require(list.is_array(), "{}: \"tools\" is not a list of functions", where);
  return list.empty() ? "" : list.dump();
}

StoredConversation conversation_of(std::string_view line, const std::string& where) {
  const core::OrderedJson object = core::parse_ordered_json(line, where);
  core::require(object.is_object() && object.contains("messages"),
                "{}: not an object with \"messages\", unlike the first line; texts and conversations cannot be mixed",
                where);
  StoredConversation conversation{.messages = {}, .tools = tools_of(object, where), .where = where};
  try {
    conversation.messages = chat_messages(object["messages"], MessageForm::Dataset);
  } catch (const core::Error& error) {
    core::fail("{}: messages {}", where, error.what());
  }
  const auto& messages = conversation.messages;
  const auto answers = [](const ChatMessage& m) { return m.role == ChatRole::Assistant; };
  core::require(std::any_of(messages.begin(), messages.end(), answers),
                "{}: no message has the role assistant, so there is nothing to learn; add one, or remove the line",
                where);
  core::require(!answers(messages.front()),
                "{}: the first message has the role assistant; put a message with the role user before it", where);
  return conversation;
}

struct Rendered {
  std::string text;
  std::string kinds;  // for each byte of the text: kTemplate or kFromMessage (message content)

  static constexpr char kTemplate = 't';
  static constexpr char kFromMessage = 's';

  explicit Rendered(const std::vector<ChatPiece>& pieces) {
    for (const ChatPiece& piece : pieces) {
      text += piece.text;
      kinds.append(piece.text.size(), piece.is_template ? kTemplate : kFromMessage);
    }
  }

  [[nodiscard]] size_t size() const { return text.size(); }
  [[nodiscard]] bool starts_with(const Rendered& other) const {
    return text.starts_with(other.text) && kinds.starts_with(other.kinds);
  }
  [[nodiscard]] Rendered first(size_t n) const {
    Rendered part({});
    part.text = text.substr(0, n);
    part.kinds = kinds.substr(0, n);
    return part;
  }
  [[nodiscard]] bool is_template(size_t from, size_t n) const {
    return kinds.find_first_not_of(kTemplate, from) >= from + n;
  }
  [[nodiscard]] std::vector<int32_t> encoded(const Tokenizer& tokenizer) const {
    std::vector<ChatPiece> pieces;
    for (size_t from = 0, to = 0; from < size(); from = to) {
      to = std::min(kinds.find_first_not_of(kinds[from], from), size());
      pieces.push_back({.text = text.substr(from, to - from), .is_template = kinds[from] == kTemplate});
    }
    return encode_rendered(tokenizer, pieces);
  }
};

struct MarkedText {
  Rendered rendered;
  std::vector<ChatSpan> answers;
};

// Returns the byte offset in `text` at which each token ends. Returns an empty list if the tokens do not spell `text`
// exactly, because the tokenizer normalized it.
std::vector<size_t> ends_of(const Tokenizer& tokenizer, std::string_view text, const std::vector<int32_t>& tokens) {
  std::vector<size_t> ends;
  size_t at = 0;
  for (const int32_t token : tokens) {
    const std::string_view rest = text.substr(at);
    std::string_view spelled = tokenizer.token_bytes(token);
    if (const SpecialToken* special = tokenizer.special_tokens().begin_of(rest); special && special->id == token) {
      spelled = special->text;
    } else if (spelled.starts_with(' ') && !rest.starts_with(' ')) {
      spelled.remove_prefix(1);  // the space that SentencePiece prepends to a text
    }
    if (!rest.starts_with(spelled)) return {};
    ends.push_back(at += spelled.size());
  }
  return at == text.size() ? ends : std::vector<size_t>();
}

// Returns the range [first, second) of tokens that contain at least one byte of the answer.
std::pair<size_t, size_t> tokens_of(const Tokenizer& tokenizer, const Rendered& rendered,
                                    const std::vector<int32_t>& tokens, const std::vector<size_t>& ends,
                                    ChatSpan answer) {
  if (!ends.empty()) {
    const auto token_with = [&](size_t byte) {
      return static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), byte) - ends.begin());
    };
    return {token_with(answer.begin), token_with(answer.end - 1) + 1};
  }
  // Tokenizes only the text before `byte`. Returns the number of leading tokens that equal those of the whole text.
  const auto tokens_before = [&](size_t byte) {
    const std::vector<int32_t> before = rendered.first(byte).encoded(tokenizer);
    return static_cast<size_t>(std::mismatch(before.begin(), before.end(), tokens.begin(), tokens.end()).second -
                               tokens.begin());
  };
  return {tokens_before(answer.begin), tokens_before(answer.end)};
}

ChatExample example_of(const Tokenizer& tokenizer, const MarkedText& marked) {
  ChatExample example{.tokens = marked.rendered.encoded(tokenizer), .is_learned = {}};
  example.is_learned.resize(example.tokens.size());
  const std::vector<size_t> ends = ends_of(tokenizer, marked.rendered.text, example.tokens);
  for (const ChatSpan& answer : marked.answers) {
    if (answer.begin == answer.end) continue;  // nothing to learn: no content and no end of turn
    const auto [begin, end] = tokens_of(tokenizer, marked.rendered, example.tokens, ends, answer);
    for (size_t i = begin; i < end; ++i) example.is_learned[i] = true;
  }
  const auto end = std::find(example.is_learned.rbegin(), example.is_learned.rend(), true).base();
  example.tokens.resize(static_cast<size_t>(end - example.is_learned.begin()));
  example.is_learned.erase(end, example.is_learned.end());
  return example;
}

// Returns the end of an answer in a rendered chat. Includes `mark`, the text that ends a turn, but not template text
// after the mark, such as a line break.
size_t end_of_answer(const Rendered& whole, size_t begin, const std::string& mark) {
  if (mark.empty()) return whole.size();
  for (size_t at = whole.text.rfind(mark); at != std::string::npos && at >= begin;
       at = whole.text.rfind(mark, at - 1)) {
    if (whole.is_template(at, mark.size())) return at + mark.size();
    if (at == 0) break;
  }
  size_t end = whole.size();
  while (end > begin && whole.is_template(end - 1, 1) && std::string_view(" \t\r\n").find(whole.text[end - 1]) < 4)
    --end;
  return end;
}

// Returns the text that ends a turn. `more` is the chat `whole` with one more turn. The result is the white space and
// the special token after `whole` in `more`, or "" if generation does not stop at that token.
std::string mark_between(const Tokenizer& tokenizer, const Rendered& whole, const Rendered& more) {
  if (!more.starts_with(whole)) return "";
  const std::string_view after = std::string_view(more.text).substr(whole.size());
  const size_t begin = after.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  const SpecialToken* token = tokenizer.special_tokens().begin_of(after.substr(begin));
  if (token == nullptr || !tokenizer.ends_text(token->id)) return "";
  const size_t size = begin + token->text.size();
  return more.is_template(whole.size(), size) ? std::string(after.substr(0, size)) : "";
}

std::vector<MarkedText> marked_by_rendering(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                            ChatWithTools prepared, const std::string& mark, const std::string& next) {
  const std::span<const ChatMessage> all = prepared.messages;
  std::vector<MarkedText> texts;
  for (size_t i = 1; i < all.size(); ++i) {
    if (all[i].role != ChatRole::Assistant) continue;
    prepared.options.add_generation_prompt = true;
    const Rendered before(render_chat(tokenizer, chat, all.first(i), prepared.options));
    prepared.options.add_generation_prompt = false;
    const Rendered whole(render_chat(tokenizer, chat, all.first(i + 1), prepared.options));
    core::require(whole.starts_with(before),
                  "the chat template writes a different prefix before an answer than for a generation prompt; put "
                  "{{% generation %}} around answers in the template, or choose another with --chat-template");
    ChatSpan answer{.begin = before.size(), .end = end_of_answer(whole, before.size(), mark)};
    Rendered text = whole.first(answer.end);
    if (!next.empty()) {
      std::string end;
      if (i + 1 < all.size()) {
        end =
            mark_between(tokenizer, whole, Rendered(render_chat(tokenizer, chat, all.first(i + 2), prepared.options)));
      }
      if (end.empty()) end = next;
      text.text += end;
      text.kinds.append(end.size(), Rendered::kTemplate);
      answer.end += end.size();
    }
    if (texts.empty() || !text.starts_with(texts.back().rendered)) {
      texts.push_back({.rendered = text, .answers = {}});
    } else {
      texts.back().rendered = text;
    }
    texts.back().answers.push_back(answer);
  }
  return texts;
}

std::vector<MarkedText> marked_by_template(const Tokenizer& tokenizer, const ChatTemplate& chat,
                                           ChatWithTools prepared) {
  prepared.options.add_generation_prompt = false;
  std::vector<ChatSpan> answers;
  const Rendered rendered(render_chat(tokenizer, chat, prepared.messages, prepared.options, &answers));
  core::require(!answers.empty(), "the {{% generation %}} blocks of the chat template mark no text as an answer");
  return {{.rendered = rendered, .answers = answers}};
}

// Returns the text between an answer and the next turn, including the special token that begins that turn, such as
// "<|user|>" for GLM-4. Returns "" unless generation stops at that token (Tokenizer::ends_text()).
std::string mark_of_next_turn(const Tokenizer& tokenizer, const ChatTemplate& chat) {
  const std::vector<ChatMessage> messages{{.role = ChatRole::User, .content = "question"},
                                          {.role = ChatRole::Assistant, .content = "answer"},
                                          {.role = ChatRole::User, .content = "question"}};
  const auto rendered = [&](size_t n) {
    return Rendered(render_chat(tokenizer, chat, std::span(messages).first(n), {.add_generation_prompt = false}));
  };
  try {
    return mark_between(tokenizer, rendered(2), rendered(3));
  } catch (const core::Error&) {  // the template rejects these roles
    return "";
  }
}

}  // namespace

bool are_conversations(const Documents& documents, const std::string& field) {
  const std::optional<std::string> line = documents.first_line();
  if (!line) return false;
  try {
    const nlohmann::json object = core::parse_json(*line, "");
    return object.is_object() && object.contains("messages") && !object.contains(field);
  } catch (const core::Error&) {
    return false;
  }
}

std::vector<StoredConversation> read_conversations(const Documents& documents) {
  std::vector<StoredConversation> conversations;
  documents.read_lines(
      [&](std::string_view line, const std::string& where) { conversations.push_back(conversation_of(line, where)); });
  return conversations;
}

ChatRenderer::ChatRenderer(const Tokenizer& tokenizer, const ChatTemplate& chat)
    : tokenizer_(tokenizer), chat_(chat), mark_(end_of_turn(tokenizer, chat)) {
  if (mark_.empty() && !chat.has_generation(false)) next_ = mark_of_next_turn(tokenizer, chat);
}

bool ChatRenderer::learns_to_stop() const {
  if (!chat_.has_generation(false)) return !mark_.empty() || !next_.empty();
  const std::vector<ChatExample> examples =
      this->examples({.messages = {{.role = ChatRole::User, .content = "question"},
                                   {.role = ChatRole::Assistant, .content = "answer"}}});
  if (examples.empty()) return false;
  const ChatExample& last = examples.back();
  const int32_t mark = tokenizer_.special_tokens().id_of(mark_);
  std::string text;  // compare text instead of IDs, since mark_ can be several tokens
  for (size_t i = 0; i < last.tokens.size(); ++i) {
    if (!last.is_learned[i]) continue;
    if (tokenizer_.ends_text(last.tokens[i]) || last.tokens[i] == mark) return true;
    text += tokenizer_.token_bytes(last.tokens[i]);
  }
  return mark < 0 && !mark_.empty() && text.find(mark_) != std::string::npos;
}

ChatWithTools ChatRenderer::prepared(const StoredConversation& conversation) const {
  const auto& messages = conversation.messages;
  const bool has_calls = std::any_of(messages.begin(), messages.end(),
                                     [](const ChatMessage& m) { return !m.calls.empty() || m.role == ChatRole::Tool; });
  if (!has_calls && conversation.tools.empty()) return {.messages = messages, .options = {}};
  std::call_once(once_, [&] { format_ = tool_format(tokenizer_, chat_); });
  return with_tools(messages, conversation.tools, *format_);
}

std::vector<int32_t> ChatRenderer::prompt(const StoredConversation& conversation) const {
  try {
    const ChatWithTools prepared_chat = prepared(conversation);
    return encode_chat(tokenizer_, chat_, prepared_chat.messages, prepared_chat.options);
  } catch (const core::Error& error) {
    core::fail("{}: {}", conversation.where, error.what());
  }
}

std::vector<ChatExample> ChatRenderer::examples(const StoredConversation& conversation) const {
  try {
    ChatWithTools prepared_chat = prepared(conversation);
    const std::vector<MarkedText> texts =
        chat_.has_generation(!prepared_chat.options.tools.empty())
            ? marked_by_template(tokenizer_, chat_, std::move(prepared_chat))
            : marked_by_rendering(tokenizer_, chat_, std::move(prepared_chat), mark_, next_);
    std::vector<ChatExample> examples;
    for (const MarkedText& text : texts) {
      ChatExample example = example_of(tokenizer_, text);
      if (!example.tokens.empty()) examples.push_back(std::move(example));
    }
    return examples;
  } catch (const core::Error& error) {
    core::fail("{}: {}", conversation.where, error.what());
  }
}

}  // namespace folio::data
