// Parses an answer while it is generated: reasoning, text, and function calls with their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/tool_format.h"
#include "infer/server/answer_forms.h"

namespace folio::infer::server {

/// The part of a function call that was generated since the last update.
struct CallUpdate {
  size_t index = 0;  ///< index of the call in the answer
  std::string id{};  ///< set together with the name, when the call begins
  std::string name{};
  std::string arguments{};  ///< next part of the arguments, which are JSON
};

/// The part of an answer that was generated since the last update.
struct AnswerUpdate {
  std::string reasoning{};
  std::string content{};
  std::vector<CallUpdate> calls{};

  [[nodiscard]] bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
  void append(AnswerUpdate more);
};

/// Parses the function calls of an answer that arrives in pieces. The parsed calls don't depend on where the answer is
/// split.
class CallReader {
 public:
  /// `format` must outlive this object. If `has_answer`, text may precede the calls, or there may be no calls. The
  /// calls' IDs are derived from `id_seed`. If `at_start`, a call can begin only at the start of the answer.
  CallReader(const data::ToolFormat& format, bool has_answer, uint64_t id_seed, bool at_start);

  [[nodiscard]] AnswerUpdate read(std::string_view piece);
  /// Ends the answer and returns the text that was held back because a call could have begun with it.
  [[nodiscard]] AnswerUpdate end();
  /// Returns true if there are calls and the last one is complete.
  [[nodiscard]] bool is_whole() const {
    return n_calls_ > 0 && (stage_ == Stage::After || (stage_ == Stage::Call && piece_ == 0));
  }

 private:
  enum class Stage : uint8_t { Answer, Text, Opening, Call, After };

  [[nodiscard]] bool read_start();
  [[nodiscard]] bool read_answer(AnswerUpdate& update);
  [[nodiscard]] bool read_call(AnswerUpdate& update);
  [[nodiscard]] bool read_name(AnswerUpdate& update);
  [[nodiscard]] bool read_arguments(AnswerUpdate& update);
  [[nodiscard]] bool take(size_t n);
  [[nodiscard]] std::string new_id() const;

  const data::ToolFormat& format_;
  uint64_t id_seed_;
  bool at_start_;  ///< a call can begin only at the start of the answer
  Stage stage_;
  std::string held_;     ///< text that was received but not parsed yet
  std::string opening_;  ///< text expected before the first call
  size_t piece_ = 0;     ///< index in format_.call of the element to be parsed
  size_t n_calls_ = 0;   ///< number of calls whose name was read
  int depth_ = 0;        ///< number of open braces and brackets in the arguments
  bool in_string_ = false;
  bool is_escaped_ = false;
};

/// Separates the reasoning at the start of an answer from the content. Drops newlines next to the markers of reasoning.
class ReasoningReader {
 public:
  explicit ReasoningReader(data::Thinking thinking);

  /// Returns the new reasoning and content. The update's `calls` are empty.
  [[nodiscard]] AnswerUpdate read(std::string_view piece);
  [[nodiscard]] AnswerUpdate end();
  [[nodiscard]] bool is_inside() const { return stage_ == Stage::Reasoning; }
  /// Returns true if no reasoning can follow.
  [[nodiscard]] bool is_over() const { return stage_ == Stage::After || stage_ == Stage::Text; }

 private:
  enum class Stage : uint8_t { Start, Reasoning, After, Text };

  Stage stage_;
  std::string held_{};  ///< text that was received but not parsed yet
  bool has_begun_ = false;
};

/// Splits an answer into reasoning, text and, if there are tools, function calls. is_enough() becomes true at the
/// maximum number of calls, or when a call repeats an earlier one. The updates don't contain the repeated call.
class AnswerReader {
 public:
  /// `tools` must outlive this object; null: no function calls. The calls' IDs are derived from `id_seed`.
  AnswerReader(data::Thinking thinking, const ToolUse* tools, uint64_t id_seed);

  [[nodiscard]] AnswerUpdate read(std::string_view piece);
  [[nodiscard]] AnswerUpdate end();
  [[nodiscard]] bool is_reasoning() const { return reasoning_.is_inside(); }
  [[nodiscard]] bool is_enough() const { return is_enough_; }
  /// Returns true if there are calls and all of them are complete.
  [[nodiscard]] bool has_whole_calls() const { return is_enough_ || (calls_ && calls_->is_whole()); }

 private:
  [[nodiscard]] AnswerUpdate read_calls(AnswerUpdate update, bool is_last);
  void keep_new(AnswerUpdate& update);
  void end_call();

  ReasoningReader reasoning_;
  std::optional<CallReader> calls_;
  size_t most_calls_;
  std::set<std::string> known_{};  ///< complete calls: name, newline, arguments
  std::string current_{};          ///< the current call: name, newline, arguments so far
  CallUpdate held_{};              ///< the current call's output, held back while it may equal an earlier call
  bool is_enough_ = false;
};

}  // namespace folio::infer::server
