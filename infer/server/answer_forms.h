// Compiles and caches forms (constraints of structured output): those that requests specify, and those of tool calls.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "data/chat/tool_format.h"
#include "infer/forms/calls.h"
#include "infer/forms/form_cache.h"

namespace folio::infer::server {

/// The format in which the served model writes function calls, with a tokenizer and constraints for this format.
struct CallWriting {
  CallWriting(const data::Tokenizer& served, data::ToolFormat found)
      : format(std::move(found)), tokenizer(served, format.marks), forms(tokenizer) {}

  data::ToolFormat format;          ///< without empty reasoning, which some chat templates write before an answer
  data::MarkedTokenizer tokenizer;  ///< decodes the markers of calls and reasoning as text
  forms::FormCache forms;           ///< structured-output constraints compiled for `tokenizer`
};

/// The tools of a request, needed to parse its answer (call_reader.h).
struct ToolUse {
  std::shared_ptr<const CallWriting> writing;
  bool has_answer = true;  ///< true: the answer may be text without calls
  bool at_start = false;   ///< true: only at the start of the answer can a call begin, since answers have a constraint
  bool is_named = false;   ///< true: the request named the function to call
  size_t most_calls = 0;   ///< maximum number of tool calls per answer
};

class AnswerForms {
 public:
  /// Both arguments must outlive this object. Without a chat template, calls() throws.
  AnswerForms(const data::Tokenizer& tokenizer, const std::optional<data::ChatTemplate>& chat);

  /// Returns the model's tokenizer, changed to decode reasoning markers as text. Constraints are compiled for it.
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return marked_; }

  /// Returns the compiled constraint for `options`. Throws core::Error if it is invalid or exceeds `budget`.
  [[nodiscard]] std::shared_ptr<forms::Form> form(const forms::FormOptions& options, const core::WorkBudget& budget) {
    return forms_.form(options, budget);
  }
  /// Returns the model's format of function calls, which is detected on first use. Throws core::Error if there is no
  /// chat template, or if detection fails or exceeds `budget`.
  [[nodiscard]] std::shared_ptr<CallWriting> calls(const core::WorkBudget& budget);

 private:
  const data::Tokenizer& tokenizer_;
  const std::optional<data::ChatTemplate>& chat_;
  std::vector<int32_t> thoughts_;  ///< markers of reasoning that the served tokenizer decodes to ""
  data::MarkedTokenizer marked_;
  forms::FormCache forms_;
  std::mutex mutex_;
  std::shared_ptr<CallWriting> calls_;
};

}  // namespace folio::infer::server
