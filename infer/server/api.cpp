#include "infer/server/api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "core/error.h"
#include "core/file_status.h"
#include "infer/engine/conversation.h"
#include "infer/forward/machine.h"
#include "infer/server/replies.h"
#include "infer/server/request_fields.h"

namespace folio::infer::server {
namespace {

// Limits max_tokens to what fits in the context after the shortest prompt. The engine limits each output by its own
// prompt. Throws ApiError if nothing fits after the longest.
void limit_tokens(CompletionRequest& request, const ServedModel& served, int64_t max_tokens) {
  int64_t shortest = served.context;
  int64_t longest = 0;
  for (const Prompt& prompt : request.prompts) {
    shortest = std::min(shortest, std::ssize(prompt.tokens));
    longest = std::max(longest, std::ssize(prompt.tokens));
  }
  if (longest >= served.context) {
    throw ApiError(400,
                   fmt::format("the prompt has {} tokens, but must have fewer than the context's {}; shorten it",
                               longest, served.context),
                   request.chat ? "messages" : "prompt", "context_length_exceeded");
  }
  request.options.max_tokens = std::min(max_tokens, served.context - shortest);
}

// Throws ApiError if a request would return too many log-probabilities. Sets n_logprob_bytes, the
// memory for stored log-probabilities: those of generated tokens, unless streamed, and of an echoed prompt.
void check_logprobs(CompletionRequest& request, const ServedModel& served) {
  constexpr size_t kMost = size_t{1} << 22U;
  if (!request.top_logprobs) return;
  if (request.options.beams.width > 0) refuse("logprobs", "is not supported with 'use_beam_search'");
  const size_t n_each = sizeof(TokenLogprob) + *request.top_logprobs * sizeof(TokenLogprob::Alternative);
  const auto n_choices = static_cast<size_t>(request.options.n);
  size_t n_tokens = 0;
  for (const Prompt& prompt : request.prompts) {
    const int64_t most = std::min(request.options.max_tokens, served.context - std::ssize(prompt.tokens));
    const size_t n_new = n_choices * static_cast<size_t>(most);
    const size_t n_echoed = request.echo ? prompt.tokens.size() : 0;
    request.n_logprob_bytes += (n_echoed + (request.stream ? 0 : n_new)) * n_each;
    n_tokens += n_choices * n_echoed + n_new;
  }
  const size_t n = n_tokens * (1 + *request.top_logprobs);
  if (n <= kMost) return;
  refuse(request.chat ? "top_logprobs" : "logprobs",
         "would return {} numbers for {} tokens, more than {}; request fewer tokens, choices or alternatives", n,
         n_tokens, kMost);
}

}  // namespace

std::string model_name(const std::string& path) {
  const auto file = core::absolute_path(path).lexically_normal();
  if (file.filename() == "model.gguf") return file.parent_path().filename().string();
  return core::plain_name(file);
}

ApiError api_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const MachineLost& e) {
    return ApiError(503, e.what());
  } catch (const MachineError& e) {
    return ApiError(500, e.what());
  } catch (const core::Error& e) {  // for example, the prompt doesn't fit in the KV cache
    return ApiError(400, e.what());
  } catch (const std::exception& e) {
    return ApiError(500, core::describe(e));
  }
}

Json ApiError::json() const {
  const char* type = status_ == 401 || status_ == 403 ? "authentication_error"
                     : status_ == 429                 ? "rate_limit_error"
                     : status_ >= 500                 ? "server_error"
                                                      : "invalid_request_error";
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return {{"error", {{"message", what()}, {"type", type}, {"param", or_null(param_)}, {"code", or_null(code_)}}}};
}

void require_model(const std::string& name, const ServedModel& served) {
  if (served.has(name)) return;
  constexpr size_t kMostListed = 16;
  const size_t n = std::min(kMostListed, served.adapters.size());
  throw ApiError(
      404,
      fmt::format("there is no model {}; this server has {}{}{}{}", core::printable(name), served.name,
                  n > 0 ? ", " : "",
                  fmt::join(served.adapters.begin(), served.adapters.begin() + static_cast<std::ptrdiff_t>(n), ", "),
                  n < served.adapters.size() ? ", …" : ""),
      "model", "model_not_found");
}

CompletionRequest parse_completion(const Json& body, const ServedModel& served, uint64_t random_seed,
                                   std::string_view text, const ParseOptions& options) {
  const Fields fields(body, schema("CompletionRequest"), {"suffix"});
  CompletionRequest request;
  const Json* prompt = fields.find("prompt");
  const size_t n_prompts = n_prompts_of(prompt, served);
  take_common(fields, served, random_seed, n_prompts, request);
  request.echo = fields.flag("echo");
  const int64_t max_tokens = *fields.integer("max_tokens", request.echo ? 0 : 1);
  if (const auto n = fields.integer("logprobs")) request.top_logprobs = static_cast<size_t>(*n);
  options.admit(n_prompts, static_cast<size_t>(request.n_sequences()));
  request.prompts = prompts_of(prompt, fields, served, options.budget);
  if (request.echo) {
    check_text_of("prompt", request.prompts, served);
    for (Prompt& one : request.prompts) {
      if (one.came_as_ids) one.text = served.tokenizer.decode(one.tokens);
    }
  }
  limit_tokens(request, served, max_tokens);
  check_logprobs(request, served);
  const Ordered ordered = body_with_key_order(fields, text, options.budget);
  take_form(fields, ordered, {}, nullptr, served, options.budget, request);
  return request;
}

CompletionRequest parse_chat(const Json& body, const ServedModel& served, uint64_t random_seed, std::string_view text,
                             const ParseOptions& options) {
  const Fields fields(body, schema("ChatRequest"),
                      {"functions", "function_call", "audio", "modalities", "prediction", "web_search_options"});
  need_chat_template(served);
  CompletionRequest request;
  request.chat = true;
  request.path = "/v1/chat/completions";
  request.id_prefix = "chatcmpl-";
  take_common(fields, served, random_seed, 1, request);
  const auto old_name = fields.integer("max_tokens");
  const auto max_tokens = fields.integer("max_completion_tokens");
  const auto top = fields.integer("top_logprobs");
  if (fields.flag("logprobs")) {
    request.top_logprobs = static_cast<size_t>(top.value_or(0));
  } else if (top) {
    refuse("top_logprobs", "requires \"logprobs\": true");
  }
  request.include_reasoning = fields.flag("include_reasoning");
  options.admit(1, static_cast<size_t>(request.n_sequences()));
  const Ordered ordered = body_with_key_order(fields, text, options.budget);
  const std::string variables = variables_of(fields, ordered);
  const RequestedTools tools = requested_tools(fields, ordered);
  ChatPrompt chat = chat_prompt(fields.find("messages"), tools.list, variables, served, options.budget);
  request.prompts = {std::move(chat.prompt)};
  if (options.splits_reasoning) request.thinking = chat.thinking;
  limit_tokens(request, served, max_tokens.value_or(old_name.value_or(served.context)));
  check_logprobs(request, served);
  take_form(fields, ordered, tools, std::move(chat.writing), served, options.budget, request);
  end_at_turn(served.tokenizer, *served.chat_template, request.options);
  return request;
}

}  // namespace folio::infer::server
