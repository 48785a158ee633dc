#include "infer/server/replies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

#include "core/utf8.h"

namespace folio::infer::server {
namespace {

constexpr double kImpossible = -9999.0;  // lower limit of log-probabilities, as in OpenAI's API

Ordered usage_json(const Usage& usage) {
  Ordered json = {{"prompt_tokens", usage.prompt_tokens},
                  {"completion_tokens", usage.completion_tokens},
                  {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
                  {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
  if (usage.reasoning_tokens > 0) {
    json["completion_tokens_details"] = {{"reasoning_tokens", usage.reasoning_tokens}};
  }
  return json;
}

// Returns tool calls as JSON. In a stream (`chunk`), only the first update of a call has its ID and name; later updates
// have more of its arguments.
Ordered calls_json(std::span<const CallUpdate> calls, bool chunk) {
  Ordered list = Ordered::array();
  for (const CallUpdate& call : calls) {
    Ordered json = Ordered::object();
    Ordered function = Ordered::object();
    if (chunk) json["index"] = call.index;
    if (!call.name.empty()) {
      json["id"] = call.id;
      json["type"] = "function";
      function["name"] = call.name;
    }
    function["arguments"] = call.arguments;
    json["function"] = std::move(function);
    list.push_back(std::move(json));
  }
  return list;
}

// Adds the reasoning under DeepSeek's field name and under vLLM's, since each client reads only one of them.
void add_reasoning(Ordered& message, const AnswerUpdate& answer) {
  if (answer.reasoning.empty()) return;
  message["reasoning_content"] = answer.reasoning;
  message["reasoning"] = answer.reasoning;
}

// Returns the first members of an answer's JSON object, without the closing brace.
std::string head_of(const std::string& id, const char* object, int64_t created, const CompletionRequest& request) {
  const std::string json = dump({{"id", id},
                                 {"object", object},
                                 {"created", created},
                                 {"model", request.model},
                                 {"seed", static_cast<int64_t>(request.options.sampler.seed)}});
  return json.substr(0, json.size() - 1);
}

}  // namespace

void ChoiceText::append(ChoiceText more) {
  answer.append(std::move(more.answer));
  std::ranges::move(more.prompt_tokens, std::back_inserter(prompt_tokens));
  std::ranges::move(more.tokens, std::back_inserter(tokens));
  if (more.finish_reason.empty()) return;
  finish_reason = std::move(more.finish_reason);
  stop_reason = std::move(more.stop_reason);
  score = more.score;
}

std::string error_body(const ApiError& error) { return dump(error.json()) + "\n"; }

std::string dump(const Ordered& json) { return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

TokenLogprob token_logprob(int32_t token, std::span<const float> logits, size_t n_top) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double total = 0.0;
  for (const float logit : logits) total += std::exp(static_cast<double>(logit) - largest);
  const double log_total = largest + std::log(total);
  const auto logprob = [&](int32_t id) {
    return std::max(static_cast<double>(logits[static_cast<size_t>(id)]) - log_total, kImpossible);
  };
  const auto likelier = [&](int32_t a, int32_t b) {
    const float la = logits[static_cast<size_t>(a)];
    const float lb = logits[static_cast<size_t>(b)];
    return la > lb || (la == lb && a < b);
  };
  std::vector<int32_t> top(std::min(n_top, logits.size()));
  std::ranges::partial_sort_copy(std::views::iota(0, static_cast<int32_t>(logits.size())), top, likelier);
  TokenLogprob result{.token = token, .logprob = logprob(token)};
  for (const int32_t id : top) result.top.push_back({.token = id, .logprob = logprob(id)});
  return result;
}

Replies::Replies(const CompletionRequest& request, const ServedModel& served, std::string id, int64_t created)
    : tokenizer_(served.tokenizer),
      chat_(request.chat),
      logprobs_(request.top_logprobs.has_value()),
      include_usage_(request.include_usage),
      head_whole_(head_of(id, chat_ ? "chat.completion" : "text_completion", created, request)),
      head_chunk_(head_of(id, chat_ ? "chat.completion.chunk" : "text_completion", created, request)) {}

TextSource Replies::whole(std::span<const ChoiceText> choices, const Usage& usage) {
  return [this, choices, usage, i = size_t{0}, current = TextSource()](std::string& text) mutable {
    if (!current) {
      text += i == 0 ? head_whole_ + ",\"choices\":[" : ",";
      current = choice_source(i, {std::shared_ptr<void>(), &choices[i]}, false);
    }
    if (current(text)) return true;
    current = {};
    if (++i < choices.size()) return true;
    text += fmt::format("],\"usage\":{}}}\n", dump(usage_json(usage)));
    return false;
  };
}

std::string Replies::first_chunk(size_t choice) {
  if (!chat_) return {};
  Ordered json = {{"index", choice}, {"delta", {{"role", "assistant"}, {"content", ""}}}, {"finish_reason", nullptr}};
  return event(Ordered::array({json}), nullptr);
}

TextSource Replies::chunk(size_t choice, ChoiceText piece) {
  return [this, choice, piece = std::make_shared<const ChoiceText>(std::move(piece)),
          current = TextSource()](std::string& text) mutable {
    if (!current) {
      text += "data: " + head_chunk_ + ",\"choices\":[";
      current = choice_source(choice, piece, true);
    }
    if (current(text)) return true;
    text += "]" + event_end(nullptr);
    return false;
  };
}

std::string Replies::last_events(const Usage& usage) {
  return (include_usage_ ? event(Ordered::array(), usage_json(usage)) : "") + "data: [DONE]\n\n";
}

std::string Replies::error_event(const ApiError& error) { return "data: " + dump(error.json()) + "\n\n"; }

std::string Replies::event(const Ordered& choices, const Ordered& usage) const {
  return "data: " + head_chunk_ + ",\"choices\":" + dump(choices) + event_end(usage);
}

std::string Replies::event_end(const Ordered& usage) const {
  return (include_usage_ ? ",\"usage\":" + dump(usage) : "") + "}\n\n";
}

// Returns a source that writes a choice's JSON, for a whole answer or a stream's chunk. Each call of the source appends
// one token or a few kilobytes of text.
TextSource Replies::choice_source(size_t index, std::shared_ptr<const ChoiceText> choice, bool chunk) const {
  std::vector<TextSource> parts;
  parts.push_back([this, index, choice, chunk](std::string& text) {
    text += fmt::format("{{\"index\":{},\"{}\":", index, !chat_ ? "text" : chunk ? "delta" : "message");
    text += chat_ ? dump(message_json(*choice, chunk)) : "\"";
    return false;
  });
  if (!chat_) parts.push_back(escaped(choice->echo, {choice, &choice->answer.content}));
  parts.push_back(literal(chat_ ? ",\"logprobs\":" : "\",\"logprobs\":"));
  const bool has_tokens = !choice->tokens.empty() || !choice->prompt_tokens.empty();
  if (logprobs_ && (!chunk || has_tokens)) {
    add_logprobs(parts, choice);
  } else {
    parts.push_back(literal("null"));
  }
  parts.push_back([choice](std::string& text) {
    Ordered end = {{"finish_reason", choice->finish_reason.empty() ? Ordered() : Ordered(choice->finish_reason)}};
    if (!choice->stop_reason.empty()) end["stop_reason"] = choice->stop_reason;
    if (choice->score) end["score"] = *choice->score;
    text += "," + dump(end).substr(1);
    return false;
  });
  return joined(std::move(parts));
}

Ordered Replies::message_json(const ChoiceText& choice, bool chunk) const {
  const AnswerUpdate& answer = choice.answer;
  if (chunk) {
    Ordered delta = Ordered::object();
    add_reasoning(delta, answer);
    if (!answer.content.empty()) delta["content"] = answer.content;
    if (!answer.calls.empty()) delta["tool_calls"] = calls_json(answer.calls, true);
    return delta;
  }
  const bool has_content = !answer.content.empty() || (answer.calls.empty() && answer.reasoning.empty());
  Ordered message = {
      {"role", "assistant"}, {"content", has_content ? Ordered(answer.content) : Ordered()}, {"refusal", nullptr}};
  add_reasoning(message, answer);
  if (!answer.calls.empty()) message["tool_calls"] = calls_json(answer.calls, false);
  return message;
}

// Appends sources that write a choice's log-probabilities. For chats, OpenAI's API has one list of token objects. For
// text completions, it has four parallel lists without token IDs and bytes; here the list of token objects is added.
void Replies::add_logprobs(std::vector<TextSource>& parts, const std::shared_ptr<const ChoiceText>& choice) const {
  std::vector<const TokenLogprob*> all;
  for (const auto& some : choice->prompt_tokens) {
    for (const TokenLogprob& token : *some) all.push_back(&token);
  }
  for (const TokenLogprob& token : choice->tokens) all.push_back(&token);
  const auto list = [&parts, n = all.size(),
                     tokens = std::make_shared<const std::vector<const TokenLogprob*>>(std::move(all)),
                     choice](std::string prefix, auto element, std::string suffix) {
    parts.push_back(listed(
        std::move(prefix), n,
        [tokens, choice, element](size_t i, std::string& text) mutable { text += dump(element(*(*tokens)[i])); },
        std::move(suffix)));
  };
  const auto content = [this](const TokenLogprob& t) { return content_json(t); };
  if (chat_) return list("{\"content\":[", content, "],\"refusal\":null}");
  list(
      "{\"tokens\":[", [this](const TokenLogprob& t) { return Ordered(token_name(t.token)); }, "]");
  list(
      ",\"token_logprobs\":[", [](const TokenLogprob& t) { return t.logprob ? Ordered(*t.logprob) : Ordered(); }, "]");
  const auto top = [this](const TokenLogprob& t) {
    Ordered json = t.logprob ? Ordered::object() : Ordered();
    for (const auto& other : t.top) {
      std::string name = token_name(other.token);
      if (json.contains(name)) name = fmt::format("token_id:{}", other.token);  // vLLM's name for tokens of equal text
      json[name] = other.logprob;
    }
    return json;
  };
  list(",\"top_logprobs\":[", top, "]");
  list(
      ",\"text_offset\":[", [](const TokenLogprob& t) { return Ordered(t.text_offset); }, "]");
  list(",\"content\":[", content, "]}");
}

Ordered Replies::entry(int32_t token, std::optional<double> logprob) const {
  const std::string& bytes = token_bytes(token);
  return {{"id", token},
          {"token", token_name(token)},
          {"bytes", std::vector<uint8_t>(bytes.begin(), bytes.end())},
          {"logprob", logprob ? Ordered(*logprob) : Ordered()}};
}

Ordered Replies::content_json(const TokenLogprob& t) const {
  Ordered json = entry(t.token, t.logprob);
  json["top_logprobs"] = Ordered::array();
  for (const auto& other : t.top) json["top_logprobs"].push_back(entry(other.token, other.logprob));
  return json;
}

// Returns a token's bytes, or the name of a special token without bytes, such as <|im_end|>.
const std::string& Replies::token_bytes(int32_t token) const {
  const std::string& bytes = tokenizer_.token_bytes(token);
  const data::SpecialToken* special = bytes.empty() ? tokenizer_.special_tokens().token_of(token) : nullptr;
  return special == nullptr ? bytes : special->text;
}

// Returns the token's text. If it isn't UTF-8, its bytes are escaped as in OpenAI's API: "\xe2\x80" in chats,
// "bytes:\xe2\x80" in text completions.
std::string Replies::token_name(int32_t token) const {
  const std::string& bytes = token_bytes(token);
  if (core::is_utf8(bytes)) return bytes;
  std::string name = chat_ ? "" : "bytes:";
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    name += byte < 0x20 || byte > 0x7E || c == '\\' ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return name;
}

}  // namespace folio::infer::server
