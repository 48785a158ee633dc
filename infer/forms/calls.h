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
  bool several = true;     ///< allows several calls in one answer, if the model's call format does
  bool has_answer = true;  ///< allows an answer without calls, and text before calls
  FormOptions answer{};    ///< constrains an answer without calls; if its kind isn't None, no text may precede calls
};

/// Returns the part that matches answers that may contain function calls: wherever the format's trigger for a call
/// appears, a valid call must follow. Throws core::Error that names the function if its schema is rejected.
[[nodiscard]] Grammar::Part calls_part(Grammar& grammar, const CallsForm& form);

/// Returns the part that matches reasoning of the kind `thinking`, at most two newlines, and `answer`. For
/// Thinking::None, returns `answer`.
[[nodiscard]] Grammar::Part reasoned_part(Grammar& grammar, data::Thinking thinking, Grammar::Part answer);

/// Returns the part for a constraint of any kind except None. Ignores options.thinking. Error messages don't name the
/// kind of constraint.
[[nodiscard]] Grammar::Part part_of(Grammar& grammar, const FormOptions& options);

}  // namespace folio::infer::forms
