// Reads an answer with calls as it comes: what is text, and which functions are called with which arguments.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/tool_format.h"

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
  std::string content{};
  std::vector<CallUpdate> calls{};
};

/// The pieces of a text may be cut anywhere: what they give adds up to the same.
class CallReader {
 public:
  /// `format` has to outlive it. `has_answer`: a text may stand before calls, or there is none. Ids follow from
  /// `id_seed`.
  CallReader(const data::ToolFormat& format, bool has_answer, uint64_t id_seed);

  [[nodiscard]] AnswerUpdate read(std::string_view piece);
  /// What was held back, since a call could have begun with it.
  [[nodiscard]] AnswerUpdate end();
  [[nodiscard]] size_t n_calls() const { return n_calls_; }
  /// Whether there are calls, and the last one has all of its parts: a text may be cut off in the middle of it.
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

}  // namespace folio::infer::server
