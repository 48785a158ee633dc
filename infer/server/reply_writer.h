// Writes an answer no faster than its client reads it: what comes is kept as it is, and becomes text when there is room
// for that. So an answer takes little memory while it waits, however long its text is.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "infer/server/http.h"

namespace folio::infer::server {

/// Appends the next piece of a text, some kilobytes at most. False: it was the last one.
using TextSource = std::function<bool(std::string& text)>;

[[nodiscard]] TextSource literal(std::string text);
/// Several texts, one after the other.
[[nodiscard]] TextSource joined(std::vector<TextSource> sources);
/// `prefix`, then what `element`(i, text) appends for each i of `n` with commas between them, then `suffix`.
[[nodiscard]] TextSource listed(std::string prefix, size_t n, std::function<void(size_t i, std::string& text)> element,
                                std::string suffix);
/// The characters of `first`, which may be none, and then `second`, as they are in a JSON string.
[[nodiscard]] TextSource escaped(std::shared_ptr<const std::string> first, std::shared_ptr<const std::string> second);

class ReplyWriter : public std::enable_shared_from_this<ReplyWriter> {
 public:
  explicit ReplyWriter(std::shared_ptr<HttpReply> reply) : reply_(std::move(reply)) {}

  /// A whole answer, which has a length if it is short. `ended`, which may be none, is called when the reply has all.
  void send(int status, std::string_view content_type, TextSource body, std::function<void()> ended = {});

  // An answer in pieces.
  void begin(int status, std::string_view content_type);
  /// `cost` is given to on_written() when the reply has all of the source.
  void add(TextSource source, size_t cost = 0);
  void on_written(std::function<void(size_t cost)> written) { written_ = std::move(written); }
  void end(std::function<void()> ended);

  /// Something was written, but not all of a source.
  [[nodiscard]] bool is_inside() const { return is_inside_; }
  /// Writes nothing more.
  void drop();

 private:
  struct Entry {
    TextSource source;
    size_t cost;
  };
  [[nodiscard]] static bool fill(const TextSource& source, std::string& piece);
  void pump();

  std::shared_ptr<HttpReply> reply_;  ///< none: the answer has ended, or nothing more is written
  std::deque<Entry> entries_;
  std::function<void(size_t cost)> written_{};
  std::function<void()> ended_{};
  bool ends_ = false;
  bool is_inside_ = false;
};

}  // namespace folio::infer::server
