// The request fields that constrain the answer (structured output): OpenAI's response_format, tools and tool_choice,
// vLLM's guided_… and structured_outputs, llama-server's grammar and json_schema.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"
#include "infer/server/fields.h"

namespace folio::infer::server {

/// A constraint on the answer, and the field that requests it; kind None if there is none. requested_form() is given
/// the request with its keys in order, and throws ApiError, also if two fields request a constraint.
struct RequestedForm {
  std::string field{};
  std::string place{};  ///< the part of the field that holds the constraint
  forms::FormOptions options{};
};
[[nodiscard]] RequestedForm requested_form(const Fields& fields, const core::OrderedJson& body);

/// Returns true if the request has a form or tools, for which the order of keys matters.
[[nodiscard]] bool needs_order(const Fields& fields);

/// The tools that an answer may call.
struct RequestedTools {
  std::string list{};        ///< as JSON, for the chat template; empty: none
  forms::CallsForm calls{};  ///< without the format of calls and the constraint on other answers
  bool is_named = false;
};
/// Parses tools, tool_choice and parallel_tool_calls. Throws ApiError.
[[nodiscard]] RequestedTools requested_tools(const Fields& fields, const core::OrderedJson& body);

/// Returns the result of `make`. A core::Error becomes an ApiError of `field`. If the budget is exceeded, the error
/// names the part of the field, starting with `place`.
template <typename Make>
[[nodiscard]] auto made_for(const std::string& field, const std::string& place, const core::WorkBudget& budget,
                            Make&& make) {
  const core::WorkBudget::Place counted(budget, place);
  try {
    return make();
  } catch (const core::TooMuchWork& error) {
    throw ApiError(400, error.what(), error.place(), "too_much_work");
  } catch (const core::WorkStopped&) {
    throw;
  } catch (const core::Error& error) {
    throw ApiError(400, fmt::format("'{}': {}", field, error.what()), field);
  }
}

}  // namespace folio::infer::server
