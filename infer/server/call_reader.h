// Reads an answer as it comes: what is reasoning, what is text, and which functions are called with which arguments.
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

/// What is new of a call.
struct CallUpdate {
  size_t index = 0;  ///< of the answer's calls
  std::string id{};  ///< with the name, when the call begins
  std::string name{};
  std::string arguments{};  ///< what comes next of the JSON
};

/// What is new of an answer.
struct AnswerUpdate {
  std::string reasoning{};
  std::string content{};
  std::vector<CallUpdate> calls{};

  [[nodiscard]] bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
  void append(AnswerUpdate more);
};

/// Reads calls. The pieces of a text may be cut anywhere: the updates add up to the same.
class CallReader {
 public:
  /// `format` must outlive it. `has_answer`: there may be a text before calls, or none. Ids follow from `id_seed`.
  CallReader(const data::ToolFormat& format, bool has_answer, uint64_t id_seed);

  [[nodiscard]] AnswerUpdate read(std::string_view piece);
  /// What was held back, since a call could have begun with it.
  [[nodiscard]] AnswerUpdate end();
  [[nodiscard]] size_t n_calls() const { return n_calls_; }
  /// Returns true if there are calls, and the last one was not cut off.
  [[nodiscard]] bool is_whole() const {
    return n_calls_ > 0 && (stage_ == Stage::Behind || (stage_ == Stage::Call && piece_ == 0));
  }

 private:
  enum class Stage : uint8_t { Answer, Text, Opening, Call, Behind };

  [[nodiscard]] bool read_answer(AnswerUpdate& update);
  [[nodiscard]] bool read_call(AnswerUpdate& update);
  [[nodiscard]] bool read_name(AnswerUpdate& update);
  [[nodiscard]] bool read_arguments(AnswerUpdate& update);
  [[nodiscard]] bool take(size_t n);
  [[nodiscard]] std::string new_id() const;

  const data::ToolFormat& format_;
  uint64_t id_seed_;
  Stage stage_;
  std::string held_;     ///< came, and is not read yet
  std::string opening_;  ///< what has to come before the first name
  size_t piece_ = 0;     ///< of the call
  size_t n_calls_ = 0;   ///< whose names have come
  int depth_ = 0;        ///< of the arguments: open braces and brackets
  bool in_string_ = false;
  bool is_escaped_ = false;
};

/// Splits off the reasoning at an answer's beginning. Newlines around it belong to its marks, as in Qwen 3's template.
class ReasoningReader {
 public:
  explicit ReasoningReader(data::Thinking thinking);

  /// Without calls.
  [[nodiscard]] AnswerUpdate read(std::string_view piece);
  [[nodiscard]] AnswerUpdate end();
  [[nodiscard]] bool is_inside() const { return stage_ == Stage::Reasoning; }

 private:
  enum class Stage : uint8_t { Start, Reasoning, Behind, Text };

  Stage stage_;
  std::string held_{};  ///< came, and is not read yet
  bool has_begun_ = false;
};

/// Reads reasoning, then a text, and calls if there are tools. An answer is enough with a call that repeats an earlier
/// one word for word, which is left out, and with the most calls that it may have.
class AnswerReader {
 public:
  /// `tools` may be null, and has to outlive it.
  AnswerReader(data::Thinking thinking, const ToolUse* tools, uint64_t id_seed);

  [[nodiscard]] AnswerUpdate read(std::string_view piece);
  [[nodiscard]] AnswerUpdate end();
  [[nodiscard]] bool is_reasoning() const { return reasoning_.is_inside(); }
  [[nodiscard]] bool is_enough() const { return is_enough_; }
  /// Returns true if there are calls, and all of them are whole.
  [[nodiscard]] bool has_whole_calls() const { return is_enough_ || (calls_ && calls_->is_whole()); }

 private:
  [[nodiscard]] AnswerUpdate read_calls(AnswerUpdate update, bool is_last);
  void keep_new(AnswerUpdate& update);
  void end_call();

  ReasoningReader reasoning_;
  std::optional<CallReader> calls_;
  size_t most_calls_;
  std::set<std::string> known_{};  ///< whole calls: name, newline, arguments
  std::string current_{};          ///< the call that is being read, likewise
  CallUpdate held_{};              ///< what is new of it, while it may be a repetition
  bool is_enough_ = false;
};

}  // namespace folio::infer::server
