// Constrained decoding of function calls (tool calls), in the notation of the model's chat template.
#pragma once

#include <string>
#include <vector>

#include "data/chat/tool_format.h"
#include "infer/forms/forms.h"

namespace folio::infer::forms {

struct CallsForm {
  struct Function {
    std::string name;
    std::string parameters;  ///< JSON schema of the arguments
    std::string place{};     ///< location for error messages, such as "[0].function.parameters"
  };
  data::ToolFormat format{};
  std::vector<Function> functions{};
  bool several = true;     ///< allows several calls in one answer, if the model's format has them
  bool has_answer = true;  ///< allows an answer without calls, and text before calls
  FormOptions answer{};    ///< constrains an answer without calls; if its kind isn't None, no text may precede calls
};

/// Returns the part that matches answers with calls: after a call's trigger, only a valid call may follow. Throws
/// core::Error that names the function if its schema is rejected.
[[nodiscard]] Grammar::Part calls_part(Grammar& grammar, const CallsForm& form);

/// Returns the part for the model's reasoning, if it has any, then at most two newlines and `answer`.
[[nodiscard]] Grammar::Part reasoned_part(Grammar& grammar, data::Thinking thinking, Grammar::Part answer);

/// Returns the part for a constraint of any kind except None. Ignores options.thinking. Errors don't name the kind.
[[nodiscard]] Grammar::Part part_of(Grammar& grammar, const FormOptions& options);

}  // namespace folio::infer::forms
