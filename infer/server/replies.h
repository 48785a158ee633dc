// Writes completions as OpenAI's objects, whole or in the chunks of a stream. Knows no engine. Source: OpenAI's API
// reference, "Completions" and "Chat completions".
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "infer/server/api.h"
#include "infer/server/call_reader.h"
#include "infer/server/http_reply.h"

namespace folio::infer::server {

/// A token, how likely it was (ln p), and the likeliest that there were in its place.
struct TokenLogprob {
  struct Alternative {
    int32_t token = -1;
    double logprob = 0.0;
  };
  int32_t token = -1;
  std::optional<double> logprob{};  ///< none: nothing stands before it
  std::vector<Alternative> top{};
  size_t text_offset = 0;  ///< of /v1/completions: the character of the choice's text at which it begins
};

/// The `n_top` likeliest beside `token`, from its logits (vocab_size).
[[nodiscard]] TokenLogprob token_logprob(int32_t token, std::span<const float> logits, size_t n_top);

/// Output of one choice: all of it, or what is new. What several choices begin with is shared.
struct ChoiceText {
  /// Of rows of the prompt, which come before `tokens`.
  using PromptTokens = std::shared_ptr<const std::vector<TokenLogprob>>;

  std::shared_ptr<const std::string> echo{};  ///< the prompt, which comes before `text`
  std::vector<PromptTokens> prompt_tokens{};
  AnswerUpdate answer{};
  std::vector<TokenLogprob> tokens{};  ///< if probabilities are wanted
  std::string finish_reason{};         ///< empty: it goes on
  std::string stop_reason{};           ///< more of why it ended, if there is more to say
  std::optional<double> score{};       ///< of a beam that has ended

  void append(ChoiceText more);
  /// With the prompt.
  [[nodiscard]] std::string whole_text() const { return echo == nullptr ? answer.content : *echo + answer.content; }
  [[nodiscard]] bool has_text() const { return !answer.content.empty() || (echo != nullptr && !echo->empty()); }
};

struct Usage {
  size_t prompt_tokens = 0;
  size_t completion_tokens = 0;
  size_t cached_tokens = 0;
  size_t reasoning_tokens = 0;  ///< of those of the completion
};

/// OpenAI's completions. Other APIs over the same requests override what they write.
class Replies {
 public:
  Replies(const CompletionRequest& request, const ServedModel& served, std::string id, int64_t created);

  virtual ~Replies() = default;
  Replies(const Replies&) = delete;
  Replies& operator=(const Replies&) = delete;

  /// The whole answer, as JSON. The source, as those below, uses this and the choices.
  [[nodiscard]] virtual TextSource whole(std::span<const ChoiceText> choices, const Usage& usage);

  // Events of a stream, with "data: " and the empty line.
  /// Begins a chat's choice; empty for texts.
  [[nodiscard]] virtual std::string first_chunk(size_t choice);
  [[nodiscard]] virtual TextSource chunk(size_t choice, ChoiceText piece);
  /// All choices have ended.
  [[nodiscard]] virtual std::string last_events(const Usage& usage);
  [[nodiscard]] virtual std::string error_event(const ApiError& error);

 protected:
  using Ordered = nlohmann::ordered_json;

  /// A token of a chat's logprobs.
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
  std::string head_whole_;  ///< the first members of an answer
  std::string head_chunk_;  ///< and of a chunk
};

/// What an error is answered with.
[[nodiscard]] std::string error_body(const ApiError& error);

/// JSON as one line; what is no UTF-8 becomes U+FFFD.
[[nodiscard]] std::string dump(const nlohmann::ordered_json& json);

}  // namespace folio::infer::server
