// OpenAI's completions as data: requests, checked field by field, and errors. Knows no HTTP. Source: OpenAI's API
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

/// A refusal, in the shape of OpenAI's.
class ApiError : public std::runtime_error {
 public:
  /// `param` is the field that is wrong, or empty.
  ApiError(int status, const std::string& message, std::string param = {}, std::string code = {})
      : std::runtime_error(message), status_(status), param_(std::move(param)), code_(std::move(code)) {}

  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] const std::string& param() const { return param_; }
  [[nodiscard]] const std::string& code() const { return code_; }
  /// {"error": {"message", "type", "param", "code"}}
  [[nodiscard]] Json json() const;

 private:
  int status_;
  std::string param_;
  std::string code_;
};

inline constexpr int64_t kMostChoices = 128;  ///< of a request, where nothing else is said
inline constexpr size_t kMostToolCalls = 32;  ///< of an answer, likewise

/// The model that is served.
struct ServedModel {
  std::string name;
  int64_t context = 0;
  const data::Tokenizer& tokenizer;
  std::optional<data::ChatTemplate> chat_template{};       ///< none: the model goes on with texts, and does not chat
  size_t speculate = 0;                                    ///< GenerateOptions::speculate of each
  int32_t adapter = kNoAdapter;                            ///< GenerateOptions::adapter of those that ask for `name`
  std::vector<std::string> adapters{};                     ///< names of others that a request may ask for
  int64_t max_choices = kMostChoices;                      ///< of a request: n times its prompts
  size_t max_tool_calls = kMostToolCalls;                  ///< of an answer, which ends with the last of them
  SamplerOptions sampler = SamplerOptions::of_requests();  ///< where a request says nothing
  std::shared_ptr<AnswerForms> forms{};                    ///< none: a request can't say what form its answer has
};

/// Throws ApiError 404 unless a request may ask for the model of that name.
void require_model(const std::string& name, const ServedModel& served);

/// What a model in this file is called where nothing else is said: runs/tinyshakespeare/model.gguf is tinyshakespeare.
[[nodiscard]] std::string model_name(const std::string& path);

struct Prompt {
  std::vector<int32_t> tokens;
  std::string text;  ///< of one that came as ids only if it is echoed
  bool came_as_ids = false;
  bool parse_special = false;  ///< special tokens of `tokens` may be in `text`
  size_t n_added = 0;          ///< the first tokens, which `text` lacks
};

class Replies;
struct CompletionRequest;
/// Returns the writer of a request's answer, which has that `id` and was `created` then (seconds since 1970).
using MakeReplies = std::function<std::unique_ptr<Replies>(const CompletionRequest& request, const ServedModel& served,
                                                           const std::string& id, int64_t created)>;

/// A request for completions, of any kind.
struct CompletionRequest {
  bool chat = false;
  std::string_view path = "/v1/completions";  ///< that it was posted to
  std::string_view id_prefix = "cmpl-";
  MakeReplies make_replies{};  ///< none: Replies itself
  std::string model{};         ///< the served one's name, or an adapter's
  std::vector<Prompt> prompts;
  GenerateOptions options;
  bool echo = false;
  bool stream = false;
  bool include_usage = false;
  std::optional<size_t> top_logprobs;  ///< so many alternatives beside each token; none: no probabilities are wanted
  size_t n_logprob_bytes = 0;          ///< that are held at most: of a stream those of echoed prompts
  std::shared_ptr<const ToolUse> tools{};  ///< that the answer may call; none: it is a text
  data::Thinking thinking = data::Thinking::None;
  bool include_reasoning = true;  ///< in the answer, if there is any

  /// Texts of each prompt that are followed: its choices, or its beams.
  [[nodiscard]] int64_t n_sequences() const { return std::max(options.n, options.beams.width); }
};

struct ParseOptions {
  /// For the template, the tokens (a step for each byte) and the form of the answer. An error names what needs more.
  core::WorkBudget budget{};
  /// Called before that work begins; throws if the request can't run anyway.
  std::function<void(size_t n_prompts, size_t n_sequences_of_each)> admit{};
  /// The answer of a chat is split into reasoning and the rest, so a form begins behind the reasoning.
  bool splits_reasoning = true;
};

// All of these throw ApiError that names the field and its range, all unknown fields, or what is not supported. The
// form is compiled last, when the prompt is known to fit the context.

/// Uses `random_seed` where the request has none. `text` is the body as it came, by which schemas keep the order of
/// their keys; without it they are in alphabetical order.
[[nodiscard]] CompletionRequest parse_completion(const Json& body, const ServedModel& served, uint64_t random_seed,
                                                 std::string_view text = {}, const ParseOptions& options = {});
[[nodiscard]] CompletionRequest parse_chat(const Json& body, const ServedModel& served, uint64_t random_seed,
                                           std::string_view text = {}, const ParseOptions& options = {});
/// A request of the Responses API, as parse_chat(). What needs a stored state is rejected with an error that names it.
[[nodiscard]] CompletionRequest parse_response(const Json& body, const ServedModel& served, uint64_t random_seed,
                                               std::string_view text = {}, const ParseOptions& options = {});
/// The body with its keys in their order, as `text` has them.
[[nodiscard]] core::OrderedJson in_order(const Json& body, std::string_view text, const core::WorkBudget& budget);
/// {"prompt": text} or {"messages": […]}, as vLLM's: the tokens of a completion's prompt; none of an empty one without
/// "add_special_tokens".
[[nodiscard]] std::vector<int32_t> parse_tokenize(const Json& body, const ServedModel& served,
                                                  const core::WorkBudget& budget = core::WorkBudget());
/// {"tokens": [ids]}
[[nodiscard]] std::vector<int32_t> parse_detokenize(const Json& body, const ServedModel& served);

}  // namespace folio::infer::server
