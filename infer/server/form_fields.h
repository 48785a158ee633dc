// The request fields that constrain the answer (structured output): OpenAI's response_format, tools and tool_choice,
// vLLM's guided_… and structured_outputs, llama-server's grammar and json_schema.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"
#include "infer/server/fields.h"

namespace folio::infer::server {

/// A constraint on the answer, and the field that requests it; options.kind is None if there is none.
struct RequestedForm {
  std::string field{};
  std::string place{};  ///< path of the constraint, such as structured_outputs.json
  forms::FormOptions options{};
};
/// Parses the constraint. `body` must have its keys in the request's order. Throws ApiError if a field is invalid, or
/// two fields request constraints.
[[nodiscard]] RequestedForm requested_form(const Fields& fields, const core::OrderedJson& body);

/// Returns true if the request has a constraint or tools, for which the order of JSON keys matters.
[[nodiscard]] bool needs_order(const Fields& fields);

/// The tools that an answer may call.
struct RequestedTools {
  std::string list{};        ///< the tools as JSON, for the chat template; empty: none
  forms::CallsForm calls{};  ///< without `format` and `answer`, which the caller sets
  bool is_named = false;
};
/// Parses tools, tool_choice and parallel_tool_calls. Throws ApiError.
[[nodiscard]] RequestedTools requested_tools(const Fields& fields, const core::OrderedJson& body);

/// Returns the result of make(). Turns a core::Error into an ApiError that names `field`. If make() exceeds the budget,
/// the ApiError names the part of the request that needs too much work, as a path that begins with `place`.
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
