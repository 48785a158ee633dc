// OpenAI's completions as data: requests, checked field by field, and errors. Independent of HTTP. Source: OpenAI's API
// reference, "Completions" and "Chat completions".
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/work_budget.h"
#include "data/chat/chat_template.h"
#include "data/tokenizers/tokenizer.h"
#include "infer/engine/request.h"
#include "infer/server/answer_forms.h"
#include "infer/server/schema.h"

namespace folio::infer::server {

/// An error in the format of OpenAI's API.
class ApiError : public std::runtime_error {
 public:
  /// `param` is the invalid field, or empty.
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {})
      : std::runtime_error(message), status_(status), param_(std::move(param)), code_(std::move(code)) {}

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& param() const { return param_; }
  [[nodiscard]] const std::string& code() const { return code_; }
  /// Returns {"error": {"message", "type", "param", "code"}}.
  [[nodiscard]] Json json() const;

 private:
  int status_;
  std::string param_;
  std::string code_;
};

inline constexpr int64_t kMostChoices = 128;  ///< default maximum per request
inline constexpr size_t kMostToolCalls = 32;  ///< default maximum per answer

/// The served model, its defaults and its limits.
struct ServedModel {
  std::string name;
  int64_t context = 0;
  const data::Tokenizer& tokenizer;
  std::optional<data::ChatTemplate> chat_template{};       ///< none: a base model, which doesn't chat
  size_t speculate = 0;                                    ///< GenerateOptions::speculate of all requests
  int32_t adapter = kNoAdapter;                            ///< GenerateOptions::adapter of requests for `name`
  std::vector<std::string> adapters{};                     ///< names of adapters that requests may choose
  int64_t max_choices = kMostChoices;                      ///< per request: n times its prompts
  size_t max_tool_calls = kMostToolCalls;                  ///< per answer, which ends after the last of them
  SamplerOptions sampler = SamplerOptions::of_requests();  ///< defaults for requests
  std::shared_ptr<AnswerForms> forms{};                    ///< null: requests can't constrain their answers
};

/// Throws ApiError 404 if no model or adapter of that name is served.
void require_model(const std::string& name, const ServedModel& served);

/// Returns a model's default name, derived from its path: runs/tinyshakespeare/model.gguf is tinyshakespeare.
[[nodiscard]] std::string model_name(const std::string& path);

struct Prompt {
  std::vector<int32_t> tokens;
  std::string text;  ///< empty if it came as IDs and is not echoed
  bool came_as_ids = false;
  bool parse_special = false;  ///< names of special tokens in `text` are these tokens
  size_t n_added = 0;          ///< leading tokens that are not in `text`, such as BOS
};

class Replies;
struct CompletionRequest;
/// Creates the writer of a request's answer, with that `id` and creation time (seconds since 1970).
using MakeReplies = std::function<std::unique_ptr<Replies>(const CompletionRequest& request, const ServedModel& served,
                                                           const std::string& id, int64_t created)>;

/// A parsed request to any of the completion APIs.
struct CompletionRequest {
  bool chat = false;
  std::string_view path = "/v1/completions";  ///< where it was posted
  std::string_view id_prefix = "cmpl-";
  MakeReplies make_replies{};  ///< empty: class Replies
  std::string model{};         ///< the served model's name, or an adapter's
  std::vector<Prompt> prompts;
  GenerateOptions options;
  bool echo = false;
  bool stream = false;
  bool include_usage = false;
  std::optional<size_t> top_logprobs;      ///< number of alternatives per token; nullopt: no log-probabilities
  size_t n_logprob_bytes = 0;              ///< limit for log-probabilities held; of a stream, those of echoed prompts
  std::shared_ptr<const ToolUse> tools{};  ///< tools that the answer may call; null: none
  data::Thinking thinking = data::Thinking::None;
  bool include_reasoning = true;  ///< the answer contains its reasoning, if there is any

  /// Returns the number of sequences per prompt: its choices, or its beams.
  [[nodiscard]] int64_t n_sequences() const { return std::max(options.n, options.beams.width); }
};

struct ParseOptions {
  /// For the template, the tokens (one step per byte) and the form. Errors name the field that exceeds it.
  core::WorkBudget budget{};
  /// Called before that work begins. Throws if the request can't be accepted anyway.
  std::function<void(size_t n_prompts, size_t n_sequences_of_each)> admit{};
  /// Splits a chat's answer into reasoning and the rest; a form then applies after the reasoning.
  bool splits_reasoning = true;
};

// All of these throw ApiError that names an invalid field and its range, unknown fields, or an unsupported feature. The
// form is compiled last, when the prompt is known to fit the context.

/// Parses a request to /v1/completions, which uses `random_seed` if it has no seed. `text` is the raw body, from which
/// schemas keep the order of their keys; without it, keys are sorted.
[[nodiscard]] CompletionRequest parse_completion(const Json& body, const ServedModel& served, uint64_t random_seed,
                                                 std::string_view text = {}, const ParseOptions& options = {});
[[nodiscard]] CompletionRequest parse_chat(const Json& body, const ServedModel& served, uint64_t random_seed,
                                           std::string_view text = {}, const ParseOptions& options = {});
/// Parses a request to the Responses API, as parse_chat() does. Fields that need stored state are rejected.
[[nodiscard]] CompletionRequest parse_response(const Json& body, const ServedModel& served, uint64_t random_seed,
                                               std::string_view text = {}, const ParseOptions& options = {});
/// Returns the body with its keys in the order of `text`.
[[nodiscard]] core::OrderedJson in_order(const Json& body, std::string_view text, const core::WorkBudget& budget);
/// Parses {"prompt": text} or {"messages": […]}, as in vLLM's API, and returns the tokens of the prompt of a
/// completion. An empty prompt has none if "add_special_tokens" is false.
[[nodiscard]] std::vector<int32_t> parse_tokenize(const Json& body, const ServedModel& served,
                                                  const core::WorkBudget& budget = core::WorkBudget());
/// Parses {"tokens": [ids]}.
[[nodiscard]] std::vector<int32_t> parse_detokenize(const Json& body, const ServedModel& served);

}  // namespace folio::infer::server
