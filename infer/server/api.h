// Parses and checks the requests of OpenAI's completion APIs, and defines their errors. Independent of HTTP. Source:
// OpenAI's API reference, "Completions" and "Chat completions".
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
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
  /// Creates an error with this HTTP status. `param` is the invalid field and `code` OpenAI's error code; either may be
  /// empty.
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

/// Returns an exception of the engine as an error of the API: 400, 500 or 503.
[[nodiscard]] ApiError api_error(const std::exception_ptr& error);

inline constexpr int64_t kMostChoices = 128;  ///< default maximum of choices per request, over all its prompts
inline constexpr size_t kMostToolCalls = 32;  ///< default maximum of tool calls per answer

/// The served model, its defaults and its limits.
struct ServedModel {
  std::string name;
  int64_t context = 0;
  const data::Tokenizer& tokenizer;
  std::optional<data::ChatTemplate> chat_template{};       ///< empty: a base model, which can't chat
  size_t speculate = 0;                                    ///< maximum draft tokens per step, for all requests; 0: none
  int32_t adapter = kNoAdapter;                            ///< id of the adapter for requests to `name`, or kNoAdapter
  std::vector<std::string> adapters{};                     ///< names of adapters that requests may choose
  int64_t max_choices = kMostChoices;                      ///< maximum choices of a request (`n` times its prompts)
  size_t max_tool_calls = kMostToolCalls;                  ///< maximum number of tool calls per answer
  SamplerOptions sampler = SamplerOptions::of_requests();  ///< defaults for requests
  std::string machine{};                                   ///< Machine::describe() of the machine that runs the model
  std::shared_ptr<AnswerForms> forms{};                    ///< of `tokenizer` and `chat_template`; Service sets it

  /// Returns true if `model` is the name of the model or of an adapter.
  [[nodiscard]] bool has(const std::string& model) const {
    return model == name || std::ranges::find(adapters, model) != adapters.end();
  }
};

/// Throws ApiError 404 if no model or adapter of that name is served.
void require_model(const std::string& name, const ServedModel& served);

/// Returns a model's default name, derived from its path: "tinyshakespeare" for runs/tinyshakespeare/model.gguf.
[[nodiscard]] std::string model_name(const std::string& path);

struct Prompt {
  std::vector<int32_t> tokens;
  std::string text;  ///< empty if the prompt came as token IDs and is not echoed
  bool came_as_ids = false;
  bool parse_special = false;  ///< true: names of special tokens in `text`, such as </s>, were parsed as the tokens
  size_t n_added = 0;          ///< leading tokens that are not in `text`, such as BOS
};

class Replies;
struct CompletionRequest;
/// Creates the object that writes a request's answer, with the answer's `id` and creation time in seconds since 1970.
using MakeReplies = std::function<std::unique_ptr<Replies>(const CompletionRequest& request, const ServedModel& served,
                                                           const std::string& id, int64_t created)>;

/// A parsed request to any of the completion APIs.
struct CompletionRequest {
  bool chat = false;
  std::string_view path = "/v1/completions";  ///< the route that was called
  std::string_view id_prefix = "cmpl-";
  MakeReplies make_replies{};  ///< empty: answers are written by class Replies
  std::string model{};         ///< the served model's name, or an adapter's
  std::vector<Prompt> prompts;
  GenerateOptions options;
  bool echo = false;
  bool stream = false;
  bool include_usage = false;
  std::optional<size_t> top_logprobs;      ///< number of alternatives per token; nullopt: no log-probabilities
  size_t n_logprob_bytes = 0;              ///< maximum bytes of stored log-probabilities; if streamed, only of prompts
  std::shared_ptr<const ToolUse> tools{};  ///< tools that the answer may call; null: none
  data::Thinking thinking = data::Thinking::None;
  bool include_reasoning = true;  ///< false: reasoning is left out of the answer

  /// Returns the number of sequences per prompt: `n`, or the number of beams in beam search.
  [[nodiscard]] int64_t n_sequences() const { return std::max(options.n, options.beams.width); }
};

struct ParseOptions {
  /// Limits the work of rendering the template, tokenizing (one step per byte) and compiling the schema or
  /// grammar of structured output. If a field exceeds the limit, parsing throws ApiError with the field's name.
  core::WorkBudget budget{};
  /// Called before the work that `budget` limits. Must throw if the request is rejected, for example by a full queue.
  std::function<void(size_t n_prompts, size_t n_sequences_of_each)> admit = [](size_t, size_t) {};
  /// Splits a chat's answer into reasoning and content. Structured output then constrains only the content.
  bool splits_reasoning = true;
};

// The functions below throw ApiError if a field is unknown, invalid or not supported.

/// Parses a request to /v1/completions. Without a seed in the request, uses `random_seed`. `text` is the body's JSON
/// text, from which the order of keys in schemas is taken.
[[nodiscard]] CompletionRequest parse_completion(const Json& body, const ServedModel& served, uint64_t random_seed,
                                                 std::string_view text, const ParseOptions& options = {});
[[nodiscard]] CompletionRequest parse_chat(const Json& body, const ServedModel& served, uint64_t random_seed,
                                           std::string_view text, const ParseOptions& options = {});
/// Parses a request to the Responses API, as parse_chat() does. Fields that need stored state are rejected.
[[nodiscard]] CompletionRequest parse_response(const Json& body, const ServedModel& served, uint64_t random_seed,
                                               std::string_view text, const ParseOptions& options = {});
/// Parses {"prompt": text} or {"messages": […]}, as in vLLM's API, and returns the tokens that a completion would use
/// as its prompt. The result is empty if the prompt is empty and "add_special_tokens" is false.
[[nodiscard]] std::vector<int32_t> parse_tokenize(const Json& body, const ServedModel& served,
                                                  const core::WorkBudget& budget = core::WorkBudget());
/// Parses {"tokens": [ids]} and returns the IDs.
[[nodiscard]] std::vector<int32_t> parse_detokenize(const Json& body, const ServedModel& served);

}  // namespace folio::infer::server
