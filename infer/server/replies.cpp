#include "infer/server/replies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace folio::infer::server {
namespace {

constexpr double kImpossible = -9999.0;  // OpenAI's for what has no logarithm

using Ordered = nlohmann::ordered_json;

Ordered usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Ordered bytes_json(const std::string& text) {
  Ordered bytes = Ordered::array();
  for (const char c : text) bytes.push_back(static_cast<uint8_t>(c));
  return bytes;
}

// What begins, with an id and a name, or what is new of the arguments.
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

// Without its closing brace.
std::string head_of(const std::string& id, const char* object, int64_t created, const CompletionRequest& request) {
  const std::string json = dump({{"id", id},
                                 {"object", object},
                                 {"created", created},
                                 {"model", request.model},
                                 {"seed", request.options.sampler.seed}});
  return json.substr(0, json.size() - 1);
}

}  // namespace

std::string error_body(const ApiError& error) { return dump(error.json()) + "\n"; }

size_t n_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

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
  std::vector<int32_t> top;  // a heap, the least likely in front
  for (int32_t id = 0; id < std::ssize(logits); ++id) {
    if (top.size() == n_top && (n_top == 0 || !likelier(id, top.front()))) continue;
    top.push_back(id);
    std::push_heap(top.begin(), top.end(), likelier);
    if (top.size() <= n_top) continue;
    std::pop_heap(top.begin(), top.end(), likelier);
    top.pop_back();
  }
  std::sort(top.begin(), top.end(), likelier);
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

std::string Replies::whole(std::span<const ChoiceText> choices, const Usage& usage) const {
  Ordered all = Ordered::array();
  for (size_t i = 0; i < choices.size(); ++i) all.push_back(choice_json(i, choices[i], 0, false));
  return fmt::format("{},\"choices\":{},\"usage\":{}}}\n", head_whole_, dump(all), dump(usage_json(usage)));
}

std::string Replies::first_chunk(size_t choice) const {
  if (!chat_) return {};
  Ordered json = {{"index", choice}, {"delta", {{"role", "assistant"}, {"content", ""}}}, {"finish_reason", nullptr}};
  return event(Ordered::array({json}), nullptr);
}

std::string Replies::chunk(size_t choice, const ChoiceText& piece, size_t n_before) const {
  return event(Ordered::array({choice_json(choice, piece, n_before, true)}), nullptr);
}

std::string Replies::usage_chunk(const Usage& usage) const { return event(Ordered::array(), usage_json(usage)); }

std::string Replies::error_event(const ApiError& error) { return "data: " + dump(error.json()) + "\n\n"; }

std::string Replies::event(const Ordered& choices, const Ordered& usage) const {
  std::string text = "data: " + head_chunk_ + ",\"choices\":" + dump(choices);
  if (include_usage_) text += ",\"usage\":" + dump(usage);
  return text + "}\n\n";
}

Replies::Ordered Replies::choice_json(size_t index, const ChoiceText& choice, size_t n_before, bool chunk) const {
  Ordered json = {{"index", index}};
  if (!chat_) {
    json["text"] = choice.text;
  } else if (chunk) {
    json["delta"] = Ordered::object();
    if (!choice.text.empty()) json["delta"]["content"] = choice.text;
    if (!choice.calls.empty()) json["delta"]["tool_calls"] = calls_json(choice.calls, true);
  } else {
    const bool calls_only = choice.text.empty() && !choice.calls.empty();
    json["message"] = {
        {"role", "assistant"}, {"content", calls_only ? Ordered() : Ordered(choice.text)}, {"refusal", nullptr}};
    if (!choice.calls.empty()) json["message"]["tool_calls"] = calls_json(choice.calls, false);
  }
  json["logprobs"] = logprobs_ && (!chunk || !choice.tokens.empty()) ? logprobs_json(choice, n_before) : Ordered();
  json["finish_reason"] = choice.finish_reason.empty() ? Ordered() : Ordered(choice.finish_reason);
  if (!choice.stop_reason.empty()) json["stop_reason"] = choice.stop_reason;
  if (choice.score) json["score"] = *choice.score;
  return json;
}

// Chats have a list of tokens, texts have four lists. Beside these, texts have a chat's list, too: with ids and bytes,
// which the four lack.
Replies::Ordered Replies::logprobs_json(const ChoiceText& choice, size_t n_before) const {
  const auto entry = [&](int32_t token, std::optional<double> logprob) -> Ordered {
    const std::string text = token_text(token);
    return {{"id", token},
            {"token", text},
            {"bytes", bytes_json(text)},
            {"logprob", logprob ? Ordered(*logprob) : Ordered()}};
  };
  Ordered content = Ordered::array();
  for (const TokenLogprob& t : choice.tokens) {
    Ordered json = entry(t.token, t.logprob);
    json["top_logprobs"] = Ordered::array();
    for (const auto& other : t.top) json["top_logprobs"].push_back(entry(other.token, other.logprob));
    content.push_back(std::move(json));
  }
  if (chat_) return {{"content", content}, {"refusal", nullptr}};
  Ordered lists = {{"tokens", Ordered::array()},
                   {"token_logprobs", Ordered::array()},
                   {"top_logprobs", Ordered::array()},
                   {"text_offset", Ordered::array()}};
  size_t offset = n_before;
  for (const TokenLogprob& t : choice.tokens) {
    const std::string text = token_text(t.token);
    lists["tokens"].push_back(text);
    lists["token_logprobs"].push_back(t.logprob ? Ordered(*t.logprob) : Ordered());
    Ordered top = t.logprob ? Ordered::object() : Ordered();
    for (const auto& other : t.top) top[token_text(other.token)] = other.logprob;
    lists["top_logprobs"].push_back(std::move(top));
    lists["text_offset"].push_back(offset);
    offset += n_characters(text);
  }
  lists["content"] = std::move(content);
  return lists;
}

// Of a token without bytes, such as <|im_end|>, its name.
std::string Replies::token_text(int32_t token) const {
  const std::string& bytes = tokenizer_.token_bytes(token);
  if (!bytes.empty()) return bytes;
  for (const data::SpecialToken& special : tokenizer_.special_tokens().tokens()) {
    if (special.id == token) return special.text;
  }
  return bytes;
}

}  // namespace folio::infer::server
