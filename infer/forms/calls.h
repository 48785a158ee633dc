// Constrained decoding of function calls (tool calls), in the notation of the model's chat template.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/chat/tool_format.h"
#include "infer/forms/forms.h"

namespace folio::infer::forms {

struct CallsForm {
  struct Function {
    std::string name;
    std::string parameters;  ///< a JSON schema
    std::string place{};     ///< location that errors name: "[0].function.parameters"
  };
  data::ToolFormat format{};
  std::vector<Function> functions{};
  bool several = true;     ///< allows several calls in one answer, if the model's format has them
  bool has_answer = true;  ///< allows an answer without calls, and text before calls
  FormOptions answer{};    ///< constrains an answer without calls; then no text may precede calls. Kind None: any text
};

/// Returns the part that matches answers with calls: after a call's trigger, only a valid call may follow. Throws
/// core::Error that names the function if its schema is rejected.
[[nodiscard]] Grammar::Part calls_part(Grammar& grammar, const CallsForm& form);

/// Returns `answer` preceded by the model's reasoning, if any, and by at most two newlines after it.
[[nodiscard]] Grammar::Part reasoned_part(Grammar& grammar, data::Thinking thinking, Grammar::Part answer);

/// Returns the part for options of any kind except None, without reasoning. Errors don't name the kind.
[[nodiscard]] Grammar::Part part_of(Grammar& grammar, const FormOptions& options);

}  // namespace folio::infer::forms
