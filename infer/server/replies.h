// Writes completions as OpenAI's JSON objects, whole or as stream chunks. Independent of the engine. Source: OpenAI's
// API reference, "Completions" and "Chat completions".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "infer/server/api.h"
#include "infer/server/call_reader.h"
#include "infer/server/http_reply.h"

namespace folio::infer::server {

/// A token, its natural log-probability, and the most likely tokens at its position.
struct TokenLogprob {
  struct Alternative {
    int32_t token = -1;
    double logprob = 0.0;
  };
  int32_t token = -1;
  bool in_content = true;           ///< false: its text is reasoning or a function call, or was dropped (stop strings)
  std::optional<double> logprob{};  ///< nullopt for the first token of a prompt
  std::vector<Alternative> top{};
  size_t text_offset = 0;  ///< for /v1/completions: index of the token's first character in the choice's text
};

/// Returns the log-probabilities of `token` and of the `n_top` most likely tokens. `logits` has vocab_size elements.
[[nodiscard]] TokenLogprob token_logprob(int32_t token, std::span<const float> logits, size_t n_top);

/// Output of one choice: the whole output, or the new part. All choices of an echoed prompt share one copy of it.
struct ChoiceText {
  /// The tokens of an echoed prompt with their log-probabilities. In an answer, they come before `tokens`.
  using PromptTokens = std::shared_ptr<const std::vector<TokenLogprob>>;

  std::shared_ptr<const std::string> echo{};  ///< the prompt, if the answer begins with it; otherwise null
  std::vector<PromptTokens> prompt_tokens{};
  AnswerUpdate answer{};
  std::vector<TokenLogprob> tokens{};  ///< generated tokens, if log-probabilities were requested
  std::string finish_reason{};         ///< such as "stop", "length" or "tool_calls"; empty while the choice runs
  std::string stop_reason{};           ///< "form" if structured output allowed no token, otherwise empty
  std::optional<double> score{};       ///< a finished beam's score, ln p / length ^ length_penalty; else nullopt

  void append(ChoiceText more);
  [[nodiscard]] bool has_text() const { return !answer.content.empty() || (echo != nullptr && !echo->empty()); }
};

struct Usage {
  size_t prompt_tokens = 0;
  size_t completion_tokens = 0;
  size_t cached_tokens = 0;
  size_t reasoning_tokens = 0;  ///< part of completion_tokens
};

/// Writes answers in the formats of OpenAI's completions and chat completions APIs. Subclasses support other APIs.
class Replies {
 public:
  Replies(const CompletionRequest& request, const ServedModel& served, std::string id, int64_t created);

  virtual ~Replies() = default;
  Replies(const Replies&) = delete;
  Replies& operator=(const Replies&) = delete;

  /// Returns the whole answer as JSON. This object and `choices` must outlive the source.
  [[nodiscard]] virtual TextSource whole(std::span<const ChoiceText> choices, const Usage& usage);

  // The functions below return server-sent events, including "data: " and the blank line.
  /// Returns the event that begins a chat's choice; empty for text completions.
  [[nodiscard]] virtual std::string first_chunk(size_t choice);
  [[nodiscard]] virtual TextSource chunk(size_t choice, ChoiceText piece);
  /// Returns the events that end a stream, after all choices have ended.
  [[nodiscard]] virtual std::string last_events(const Usage& usage);
  [[nodiscard]] virtual std::string error_event(const ApiError& error);

 protected:
  /// Returns a token's entry in the list logprobs.content of a chat.
  [[nodiscard]] Ordered content_json(const TokenLogprob& token) const;

 private:
  [[nodiscard]] TextSource choice_source(size_t index, std::shared_ptr<const ChoiceText> choice, bool chunk) const;
  void add_logprobs(std::vector<TextSource>& parts, const std::shared_ptr<const ChoiceText>& choice) const;
  [[nodiscard]] Ordered message_json(const ChoiceText& choice, bool chunk) const;
  [[nodiscard]] Ordered entry(int32_t token, std::optional<double> logprob) const;
  [[nodiscard]] std::string event(const Ordered& choices, const Ordered& usage) const;
  [[nodiscard]] std::string event_end(const Ordered& usage) const;
  [[nodiscard]] const std::string& token_bytes(int32_t token) const;
  [[nodiscard]] std::string token_name(int32_t token) const;

  const data::Tokenizer& tokenizer_;
  bool chat_;
  bool logprobs_;
  bool include_usage_;
  std::string head_whole_;  ///< beginning of an answer's JSON: id, object, created, model, seed
  std::string head_chunk_;  ///< beginning of a chunk's JSON, with the same members
};

/// Returns the JSON body of an error.
[[nodiscard]] std::string error_body(const ApiError& error);

/// Serializes JSON to one line; invalid UTF-8 becomes U+FFFD.
[[nodiscard]] std::string dump(const Ordered& json);

}  // namespace folio::infer::server
