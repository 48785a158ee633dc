// What a request says of the form of its answer: OpenAI's response_format, tools and tool_choice, vLLM's guided_… and
// structured_outputs, and llama-server's grammar and json_schema.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"
#include "infer/server/fields.h"

namespace folio::infer::server {

/// The form that a request asks for, and the field that does; of kind None if there is none. `body` is the request with
/// its keys in their order. Throws ApiError, also if two fields ask for one.
struct AskedForm {
  std::string field{};
  std::string place{};  ///< the part of the field that holds the form
  forms::FormOptions options{};
};
[[nodiscard]] AskedForm asked_form(const Fields& fields, const core::OrderedJson& body);

/// Returns true if there is a form or a tool, for which the order of keys matters.
[[nodiscard]] bool needs_order(const Fields& fields);

/// The tools that an answer may call.
struct AskedTools {
  std::string list{};        ///< as JSON, for the chat template; empty: none
  forms::CallsForm calls{};  ///< without the format of calls and the form of the answer
  bool is_named = false;
};
/// Throws ApiError.
[[nodiscard]] AskedTools asked_tools(const Fields& fields, const core::OrderedJson& body);

/// Returns what `make` returns; a core::Error becomes the field's. Where it spends too much of the budget, the error
/// names the part of the field, from `place` on.
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
