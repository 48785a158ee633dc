// What a completion sends: OpenAI's objects, whole or in the chunks of a stream, from the texts and tokens of its
// choices. Knows no HTTP and no engine. Source: OpenAI's API reference, "Completions" and "Chat completions".
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
};

/// The `n_top` likeliest beside `token`, from its logits (vocab_size).
[[nodiscard]] TokenLogprob token_logprob(int32_t token, std::span<const float> logits, size_t n_top);

/// What became of one choice: all of it, or what is new.
struct ChoiceText {
  std::string text;
  std::vector<CallUpdate> calls{};   ///< of tools
  std::vector<TokenLogprob> tokens;  ///< if probabilities are wanted
  std::string finish_reason;         ///< empty: it goes on
  std::string stop_reason{};         ///< more of why it ended, if there is more to say
  std::optional<double> score{};     ///< of a beam that has ended
};

struct Usage {
  size_t prompt_tokens = 0;
  size_t completion_tokens = 0;
  size_t cached_tokens = 0;
};

class Replies {
 public:
  Replies(const CompletionRequest& request, const ServedModel& served, std::string id, int64_t created);

  /// The whole answer, as JSON.
  [[nodiscard]] std::string whole(std::span<const ChoiceText> choices, const Usage& usage) const;

  // Events of a stream, with "data: " and the empty line.
  /// That a chat's choice begins; for texts there is none.
  [[nodiscard]] std::string first_chunk(size_t choice) const;
  /// `n_before` characters of the choice were sent before.
  [[nodiscard]] std::string chunk(size_t choice, const ChoiceText& piece, size_t n_before) const;
  /// How a chat's choice ended.
  [[nodiscard]] std::string usage_chunk(const Usage& usage) const;
  [[nodiscard]] static std::string error_event(const ApiError& error);
  [[nodiscard]] static std::string_view last_event() { return "data: [DONE]\n\n"; }

 private:
  using Ordered = nlohmann::ordered_json;

  [[nodiscard]] Ordered choice_json(size_t index, const ChoiceText& choice, size_t n_before, bool chunk) const;
  [[nodiscard]] Ordered logprobs_json(const ChoiceText& choice, size_t n_before) const;
  [[nodiscard]] std::string event(const Ordered& choices, const Ordered& usage) const;
  [[nodiscard]] std::string token_text(int32_t token) const;

  const data::Tokenizer& tokenizer_;
  bool chat_;
  bool logprobs_;
  bool include_usage_;
  std::string head_whole_;  ///< the first members of an answer
  std::string head_chunk_;  ///< and of a chunk
};

/// What an error is answered with.
[[nodiscard]] std::string error_body(const ApiError& error);

/// How many characters (code points) UTF-8 has.
[[nodiscard]] size_t n_characters(std::string_view text);

/// JSON as one line; what is no UTF-8 becomes U+FFFD.
[[nodiscard]] std::string dump(const nlohmann::ordered_json& json);

}  // namespace folio::infer::server
