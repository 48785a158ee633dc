// Answers that call functions, as a model writes them.
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
    std::string place{};     ///< what an error calls it: "[0].function.parameters"
  };
  data::ToolFormat format{};
  std::vector<Function> functions{};
  bool several = true;     ///< calls in one answer, if the model writes more than one
  bool has_answer = true;  ///< an answer without calls will do, and one may stand before them
  FormOptions answer{};    ///< what it has to be; then none stands before calls. Of kind None: any text
};

/// From the trigger of a call on, a text can go on as a call alone. Throws core::Error that names the function whose
/// schema is refused.
[[nodiscard]] Grammar::Part calls_part(Grammar& grammar, const CallsForm& form);

/// `answer` behind the reasoning, if there is any, and at most two newlines after it.
[[nodiscard]] Grammar::Part reasoned_part(Grammar& grammar, data::Thinking thinking, Grammar::Part answer);

/// Of any kind, without reasoning. Throws core::Error without the kind's name.
[[nodiscard]] Grammar::Part part_of(Grammar& grammar, const FormOptions& options);

}  // namespace folio::infer::forms
