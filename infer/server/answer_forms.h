// The forms of a server's answers: those that requests ask for, and those of calls of tools. One for each engine.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "data/chat/tool_format.h"
#include "infer/forms/calls.h"
#include "infer/forms/form_cache.h"

namespace folio::infer::server {

/// How the served model writes calls.
struct CallWriting {
  CallWriting(const data::Tokenizer& served, data::ToolFormat found)
      : format(std::move(found)), tokenizer(served, format.marks), forms(tokenizer) {}

  data::ToolFormat format;          ///< without the empty reasoning that some templates write before an answer
  data::MarkedTokenizer tokenizer;  ///< by which the marks of calls and of reasoning are texts
  forms::FormCache forms;           ///< for it
};

/// The tools of a request, with which its answer is read (call_reader.h).
struct ToolUse {
  std::shared_ptr<const CallWriting> writing;
  bool has_answer = true;  ///< the answer may be a text
  bool is_named = false;   ///< the request named the function that is called
  size_t most_calls = 0;   ///< of an answer
};

class AnswerForms {
 public:
  /// Both have to outlive it.
  AnswerForms(const data::Tokenizer& tokenizer, const std::optional<data::ChatTemplate>& chat);

  /// The served one, by which the marks of reasoning are texts. Forms are made for it.
  [[nodiscard]] const data::Tokenizer& tokenizer() const { return marked_; }

  /// Throws core::Error as forms::make_form() does.
  [[nodiscard]] std::shared_ptr<forms::Form> form(const forms::FormOptions& options, const core::WorkBudget& budget) {
    return forms_.form(options, budget);
  }
  /// Found when it is asked for first. Throws core::Error as data::tool_format() does.
  [[nodiscard]] std::shared_ptr<CallWriting> calls(const core::WorkBudget& budget);

 private:
  const data::Tokenizer& tokenizer_;
  const std::optional<data::ChatTemplate>& chat_;
  std::vector<int32_t> thoughts_;  ///< tokens of reasoning's marks that are no text
  data::MarkedTokenizer marked_;
  forms::FormCache forms_;
  std::mutex mutex_;
  std::shared_ptr<CallWriting> calls_;
};

}  // namespace folio::infer::server
