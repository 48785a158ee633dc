#include "infer/server/call_reader.h"

#include <algorithm>
#include <utility>

#include "core/random.h"

namespace folio::infer::server {
namespace {

using Kind = data::CallPiece::Kind;

constexpr std::string_view kSpaces = " \t\r\n";

// Returns the length of the text that can be output. A prefix of `trigger` at the end of `text`, and `spaces` before it
// or at the end, are held back until more text arrives.
size_t end_of_answer(std::string_view text, std::string_view trigger, std::string_view spaces = kSpaces) {
  size_t end = text.size();
  for (size_t n = std::min(text.size(), trigger.size() - 1); n > 0; --n) {
    if (!text.ends_with(trigger.substr(0, n))) continue;
    end -= n;
    break;
  }
  const size_t last = text.substr(0, end).find_last_not_of(spaces);
  return last == std::string_view::npos ? 0 : last + 1;
}

}  // namespace

void AnswerUpdate::append(AnswerUpdate more) {
  reasoning += more.reasoning;
  content += more.content;
  for (CallUpdate& call : more.calls) {
    if (calls.empty() || calls.back().index != call.index) {
      calls.push_back(std::move(call));
    } else {
      calls.back().arguments += call.arguments;
    }
  }
}

CallReader::CallReader(const data::ToolFormat& format, bool has_answer, uint64_t id_seed, bool at_start)
    : format_(format),
      id_seed_(id_seed),
      at_start_(at_start || format.only_at_start),
      stage_(has_answer ? Stage::Answer : Stage::Opening),
      opening_(has_answer ? format.opening : format.before + format.opening) {}

AnswerUpdate CallReader::read(std::string_view piece) {
  AnswerUpdate update;
  held_ += piece;
  for (bool continues = true; continues;) {
    switch (stage_) {
      case Stage::Answer:
        continues = at_start_ ? read_start() : read_answer(update);
        break;
      case Stage::Text:
        update.content += std::exchange(held_, {});
        continues = false;
        break;
      case Stage::Opening:
        continues = take(opening_.size());
        if (continues) stage_ = Stage::Call;
        break;
      case Stage::Call:
        continues = read_call(update);
        break;
      case Stage::After:
        continues =
            !format_.separator.empty() && held_.starts_with(format_.separator) && take(format_.separator.size());
        if (continues) stage_ = Stage::Call;
        break;
    }
  }
  return update;
}

AnswerUpdate CallReader::end() {
  AnswerUpdate update;
  if (stage_ == Stage::Answer || stage_ == Stage::Text) update.content = std::exchange(held_, {});
  return update;
}

// Decides whether the answer is a call. An answer in JSON may begin like one, so the text after the name counts, too.
bool CallReader::read_start() {
  const std::string_view held = held_;
  const std::string_view after_name = format_.call[1].text;
  const size_t name_end = std::min(held.find_first_not_of(data::kToolNameLetters, opening_.size()), held.size());
  const bool begins = opening_.starts_with(held.substr(0, opening_.size())) &&
                      after_name.starts_with(held.substr(name_end, after_name.size()));
  if (begins && held.size() < std::max(name_end, opening_.size()) + after_name.size()) return false;
  stage_ = begins ? Stage::Opening : Stage::Text;
  return true;
}

bool CallReader::read_answer(AnswerUpdate& update) {
  const std::string& trigger = format_.trigger;
  const size_t at = held_.find(trigger);
  const size_t end = at == std::string::npos
                         ? end_of_answer(held_, trigger)
                         : held_.find_last_not_of(kSpaces, at == 0 ? std::string::npos : at - 1) + 1;
  if (at == 0) {
    stage_ = Stage::Opening;
    return true;
  }
  update.content += held_.substr(0, end);
  held_.erase(0, at == std::string::npos ? end : at);
  return at != std::string::npos;
}

// Parses the next element of format_.call, or ends the call after the last one. Returns false if it needs more text.
bool CallReader::read_call(AnswerUpdate& update) {
  if (piece_ == format_.call.size()) {
    piece_ = 0;
    stage_ = Stage::After;
    return true;
  }
  const data::CallPiece& piece = format_.call[piece_];
  const bool done = piece.kind == Kind::Name ? read_name(update)
                    : piece.kind == Kind::Arguments
                        ? read_arguments(update)
                        : take(piece.kind == Kind::Id ? data::kCallIdLength : piece.text.size());
  if (done) ++piece_;
  return done;
}

bool CallReader::read_name(AnswerUpdate& update) {
  const size_t end = held_.find_first_not_of(data::kToolNameLetters);
  if (end == std::string::npos) return false;
  update.calls.push_back({.index = n_calls_, .id = new_id(), .name = held_.substr(0, end)});
  ++n_calls_;
  return take(end);
}

bool CallReader::read_arguments(AnswerUpdate& update) {
  size_t n = 0;
  bool done = false;
  while (n < held_.size() && !done) {
    const char c = held_[n++];
    if (in_string_) {
      in_string_ = is_escaped_ || c != '"';
      is_escaped_ = !is_escaped_ && c == '\\';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      done = --depth_ == 0;
    }
  }
  if (n == 0) return false;
  const size_t call = n_calls_ - 1;
  if (update.calls.empty() || update.calls.back().index != call) update.calls.push_back({.index = call});
  update.calls.back().arguments += held_.substr(0, n);
  static_cast<void>(take(n));
  return done;
}

bool CallReader::take(size_t n) {
  if (held_.size() < n) return false;
  held_.erase(0, n);
  return true;
}

std::string CallReader::new_id() const {
  constexpr std::string_view kDigits = data::kToolNameLetters.substr(0, 62);
  std::string id;
  for (uint64_t random = core::splitmix64(id_seed_ + n_calls_); id.size() < data::kCallIdLength;
       random /= kDigits.size()) {
    id += kDigits[random % kDigits.size()];
  }
  return id;
}

ReasoningReader::ReasoningReader(data::Thinking thinking)
    : stage_(thinking == data::Thinking::None       ? Stage::Text
             : thinking == data::Thinking::Possible ? Stage::Start
                                                    : Stage::Reasoning) {}

AnswerUpdate ReasoningReader::read(std::string_view piece) {
  AnswerUpdate update;
  held_ += piece;
  if (stage_ == Stage::Start) {
    const size_t first = std::min(held_.find_first_not_of(kSpaces), held_.size());
    const std::string_view begin = std::string_view(held_).substr(first, data::kThinkBegin.size());
    if (data::kThinkBegin.starts_with(begin) && begin != data::kThinkBegin) return update;
    stage_ = begin == data::kThinkBegin ? Stage::Reasoning : Stage::Text;
    if (stage_ == Stage::Reasoning) held_.erase(0, first + begin.size());
  }
  if (stage_ == Stage::Reasoning) {
    if (!has_begun_) held_.erase(0, held_.find_first_not_of('\n'));
    has_begun_ = !held_.empty();
    const size_t at = held_.find(data::kThinkEnd);
    const size_t end = at == std::string::npos ? end_of_answer(held_, data::kThinkEnd, "\n")
                                               : std::string_view(held_).substr(0, at).find_last_not_of('\n') + 1;
    update.reasoning = held_.substr(0, end);
    held_.erase(0, at == std::string::npos ? update.reasoning.size() : at + data::kThinkEnd.size());
    if (at != std::string::npos) stage_ = Stage::After;
  }
  if (stage_ == Stage::After) {
    held_.erase(0, held_.find_first_not_of('\n'));
    if (!held_.empty()) stage_ = Stage::Text;
  }
  if (stage_ == Stage::Text) update.content = std::exchange(held_, {});
  return update;
}

AnswerUpdate ReasoningReader::end() {
  AnswerUpdate update;
  (is_inside() ? update.reasoning : update.content) = std::exchange(held_, {});
  return update;
}

AnswerReader::AnswerReader(data::Thinking thinking, const ToolUse* tools, uint64_t id_seed)
    : reasoning_(thinking), most_calls_(tools == nullptr ? 0 : tools->most_calls) {
  if (tools != nullptr) calls_.emplace(tools->writing->format, tools->has_answer, id_seed, tools->at_start);
}

AnswerUpdate AnswerReader::read(std::string_view piece) { return read_calls(reasoning_.read(piece), false); }

AnswerUpdate AnswerReader::end() { return read_calls(reasoning_.end(), true); }

// Parses the function calls in the update's `content` and moves them to `calls`.
AnswerUpdate AnswerReader::read_calls(AnswerUpdate update, bool is_last) {
  if (!calls_) return update;
  AnswerUpdate found = calls_->read(std::exchange(update.content, {}));
  if (is_last) found.append(calls_->end());
  update.append(std::move(found));
  keep_new(update);
  if (is_last && !is_enough_ && !held_.name.empty()) update.calls.push_back(std::exchange(held_, {}));
  return update;
}

void AnswerReader::keep_new(AnswerUpdate& update) {
  for (CallUpdate& call : std::exchange(update.calls, {})) {
    if (!call.name.empty()) {
      end_call();
      current_ = call.name + "\n";
    }
    if (is_enough_) return;
    current_ += call.arguments;
    held_.index = call.index;
    held_.id += call.id;
    held_.name += call.name;
    held_.arguments += call.arguments;
    const auto at = known_.lower_bound(current_);  // if any known call begins with current_, this one does
    if (at == known_.end() || !at->starts_with(current_)) update.calls.push_back(std::exchange(held_, {}));
  }
  if (calls_->is_whole()) end_call();
}

void AnswerReader::end_call() {
  if (current_.empty() || is_enough_) return;
  is_enough_ = !known_.insert(std::exchange(current_, {})).second || known_.size() >= most_calls_;
  held_ = {};
}

}  // namespace folio::infer::server
