// Parses the fields of a request to the completion APIs: generation options (option_fields.cpp), prompts
// (prompt_fields.cpp), and constraints of structured output (form_fields.cpp), which are OpenAI's response_format,
// tools and tool_choice, vLLM's guided_… and structured_outputs, and llama-server's grammar and json_schema.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "infer/server/fields.h"

namespace folio::infer::server {

// The functions below throw ApiError if a field is invalid.

/// Returns the name of the requested model or adapter; by default, the served model's.
[[nodiscard]] std::string take_model(const Fields& fields, const ServedModel& served);
/// Reads the fields that all completion APIs share into `request`. `random_seed` is the seed if the request has none.
/// `n_prompts` is the number of prompts in the request; it reduces the maximum of "n".
void take_common(const Fields& fields, const ServedModel& served, uint64_t random_seed, size_t n_prompts,
                 CompletionRequest& request);
/// Returns additional variables of the chat template as a JSON object, or "" if there are none. `ordered` is
/// body_with_key_order().
[[nodiscard]] std::string variables_of(const Fields& fields, const Ordered& ordered);

/// Parses a token ID. Throws an ApiError that names `field` unless the ID is in the vocabulary.
[[nodiscard]] int32_t token_id(const std::string& field, const Json& id, const ServedModel& served);
/// Returns the number of prompts in `prompt`: a string, a list of strings, token IDs, or a list of token-ID lists. Null
/// (no field "prompt") counts as one.
[[nodiscard]] size_t n_prompts_of(const Json* prompt, const ServedModel& served);
/// Tokenizes the prompt in `field`, a string or token IDs. An empty string becomes the model's default prompt.
[[nodiscard]] Prompt prompt_of(const std::string& field, const Json& given, const Fields& fields,
                               const ServedModel& served, const core::WorkBudget& budget);
/// Tokenizes the prompts in `prompt`, which has a form that n_prompts_of() accepts. Null means an empty string.
[[nodiscard]] std::vector<Prompt> prompts_of(const Json* prompt, const Fields& fields, const ServedModel& served,
                                             const core::WorkBudget& budget);
/// Throws ApiError if the text of prompts given as token IDs is too long. The limit on the request's size isn't enough,
/// since a token ID of a few digits may decode to hundreds of bytes.
void check_text_of(const std::string& field, std::span<const Prompt> prompts, const ServedModel& served);

/// Throws ApiError if the model has no chat template.
void need_chat_template(const ServedModel& served);
/// A chat rendered as a prompt, with the data needed to parse its answer.
struct ChatPrompt {
  Prompt prompt{};
  data::Thinking thinking = data::Thinking::None;  ///< the reasoning mode
  std::shared_ptr<CallWriting> writing{};          ///< format of tool calls; null if the chat has no tools or calls
};
/// Renders a chat. `tools` is a JSON list of functions, and `variables` a JSON object of template variables; "": none.
[[nodiscard]] ChatPrompt chat_prompt(const Json* messages, const std::string& tools, const std::string& variables,
                                     const ServedModel& served, const core::WorkBudget& budget);

/// If the request has a constraint, tools or variables of the template, returns the body with its keys in the order of
/// `text`, the body's JSON text. Otherwise returns an empty object, since the order of keys does not matter.
[[nodiscard]] Ordered body_with_key_order(const Fields& fields, std::string_view text, const core::WorkBudget& budget);
/// The tools that an answer may call.
struct RequestedTools {
  std::string list{};        ///< the tools as JSON, for the chat template; empty without tools
  forms::CallsForm calls{};  ///< without `format` and `answer`, which the caller sets
  bool is_named = false;
};
/// Parses tools, tool_choice and parallel_tool_calls. `ordered` is the result of body_with_key_order().
[[nodiscard]] RequestedTools requested_tools(const Fields& fields, const Ordered& ordered);
/// Sets in `request` the constraint on the answer, and the tools it may call. `writing` is the format of tool calls.
void take_form(const Fields& fields, const Ordered& ordered, const RequestedTools& tools,
               std::shared_ptr<CallWriting> writing, const ServedModel& served, const core::WorkBudget& budget,
               CompletionRequest& request);

}  // namespace folio::infer::server
